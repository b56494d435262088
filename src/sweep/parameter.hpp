// One dimension of a search space: which values a setting may have, and where they are on the interval [-1, 1] on which
// everything is searched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sweep/value.hpp"

namespace muster::sweep {

enum class Distribution {
  constant,      // one value
  values,        // a list; if all are numbers, it is searched in numerical order
  categorical,   // a list without any order
  uniform,       // uniform between min and max
  int_uniform,   // whole numbers, uniform
  uniform_pow2,  // powers of two, uniform over their exponents
  log_uniform,   // uniform over the logarithms
  log_normal,    // normal over the logarithms: around mean, as wide as scale
  logit_normal,  // normal over log(v / (1 - v)): between 0 and 1, with detail near both
};

struct Parameter {
  std::string path;
  Distribution distribution = Distribution::uniform;
  double min = 0, max = 1;
  double step = 0;            // uniform and log_uniform: values are multiples of it; 0: any number
  double centre = 0;          // on [-1, 1]: where the search begins ("mean")
  double scale = 0.5;         // on [-1, 1]: how wide it looks around good values
  std::vector<Value> values;  // constant (one), values, categorical
};

std::string_view word(Distribution distribution);

// Whether more than one value is possible.
bool varies(const Parameter& parameter);
// Whether nearby values are expected to behave alike.
bool is_ordered(const Parameter& parameter);
// How many values there are; nothing if any number is possible.
std::optional<std::uint64_t> count_values(const Parameter& parameter);
// The values in their order, for index below count_values.
Value value_at_index(const Parameter& parameter, std::uint64_t index);

// Where a value is on the interval; nothing if the parameter cannot have it.
std::optional<double> to_unit(const Parameter& parameter, const Value& value);
// The value there, or the one nearest to it. to_unit(from_unit(x)) lies where x does, or in the middle of what rounds
// to the same value; from_unit(to_unit(v)) is v, up to the last digits where v is any number.
Value from_unit(const Parameter& parameter, double unit);
// Where a draw of the distribution is; share is uniform from 0 to 1.
double draw_unit(const Parameter& parameter, double share);

}  // namespace muster::sweep

#include "sweep/parameter_draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.hpp"

namespace muster::sweep {
namespace {

constexpr double largest_whole = 0x1p48;  // the places of more numbers on [-1, 1] would be indistinguishable

bool is_whole(double number) { return number == std::floor(number) && std::abs(number) <= largest_whole; }

bool is_power_of_two(double number) {
  int exponent = 0;
  return number > 0 && std::frexp(number, &exponent) == 0.5;
}

bool is_multiple(double number, double step) {
  const double count = std::round(number / step);
  return std::abs(number - count * step) <= 1e-9 * std::abs(step) && std::abs(count) <= largest_whole;
}

// Checks all aspects of a draft and collects what is wrong with it.
class Check {
 public:
  Check(NodeReader& reader, const ParameterDraft& draft) : reader_(reader), draft_(draft) {}

  bool passed() const { return passed_; }

  void refuse(std::string what, std::string remedy) {
    passed_ = false;
    reader_.refuse(draft_.position, fmt::format("{}: {}", draft_.path, what), std::move(remedy));
  }

  void list() {
    if (draft_.values.empty()) refuse("no values", "name at least one, as in values: [8, 16]");
    std::set<std::string> seen;
    for (const Value& value : draft_.values) {
      const auto number = number_of(value);
      if (!seen.insert(number ? fmt::format("{}", *number) : to_yaml(value)).second)
        refuse(fmt::format("the value {} twice", to_yaml(value)), "name each once");
    }
    if (draft_.min || draft_.max || draft_.mean || draft_.step)
      refuse("a list of values beside min, max, mean or step", "keep one of the two");
    if (draft_.scale != std::variant<ParameterDraft::Scale, double>(ParameterDraft::Scale::automatic))
      refuse("a list of values beside scale", "remove scale");
  }

  void interval(Distribution distribution) {
    if (!draft_.values.empty())
      refuse("a list of values beside a distribution over an interval", "keep one of the two");
    if (!draft_.min || !draft_.max)
      return refuse(fmt::format("{} is missing", draft_.min ? "max" : "min"), "write min and max");
    const double min = *draft_.min, max = *draft_.max;
    if (!(min < max))
      return refuse(fmt::format("min is {} and max is {}", min, max),
                    min == max ? fmt::format("min must be below max; for one value write value: {}", min)
                               : "min must be below max");
    if (!std::isfinite(max - min))
      return refuse(fmt::format("min is {} and max is {}", min, max), "they must not be so far apart");
    bounds(distribution, min, max);
    if (draft_.mean && !(*draft_.mean >= min && *draft_.mean <= max))
      refuse(fmt::format("mean is {}", *draft_.mean), fmt::format("it must be from {} to {}", min, max));
    if (draft_.step) step(distribution, min, max);
    if (draft_.scale == std::variant<ParameterDraft::Scale, double>(ParameterDraft::Scale::time) && min <= 0)
      refuse(fmt::format("scale is time, and min is {}", min), "time counts doublings: min must be above 0");
  }

 private:
  void bounds(Distribution distribution, double min, double max) {
    switch (distribution) {
      case Distribution::int_uniform:
        for (const double bound : {min, max})
          if (!is_whole(bound))
            refuse(fmt::format("{} is not a whole number", bound), "min and max must be whole numbers, 2^48 at most");
        break;
      case Distribution::uniform_pow2:
        for (const double bound : {min, max})
          if (!is_power_of_two(bound) || bound > largest_whole)
            refuse(fmt::format("{} is not a power of two", bound), nearest_powers(bound));
        break;
      case Distribution::log_uniform:
      case Distribution::log_normal:
        if (min <= 0) refuse(fmt::format("min is {}", min), "it must be above 0: logarithms are searched");
        break;
      case Distribution::logit_normal:
        if (min <= 0 || max >= 1)
          refuse(fmt::format("min is {} and max is {}", min, max), "both must be above 0 and below 1");
        break;
      default:
        break;
    }
  }

  static std::string nearest_powers(double bound) {
    if (!(bound > 0) || bound > largest_whole) return "min and max must be powers of two, as in 8";
    const double below = std::exp2(std::floor(std::log2(bound)));
    return fmt::format("the nearest are {} and {}", below, 2 * below);
  }

  void step(Distribution distribution, double min, double max) {
    if (distribution != Distribution::uniform && distribution != Distribution::log_uniform)
      return refuse("step beside this distribution", "step goes with uniform and log_uniform");
    if (*draft_.step <= 0) return refuse(fmt::format("step is {}", *draft_.step), "it must be above 0");
    for (const double bound : {min, max})
      if (!is_multiple(bound, *draft_.step))
        refuse(fmt::format("{} is not a multiple of the step {}", bound, *draft_.step),
               "min and max must be multiples of it");
  }

  NodeReader& reader_;
  const ParameterDraft& draft_;
  bool passed_ = true;
};

bool is_list(Distribution distribution) {
  return distribution == Distribution::constant || distribution == Distribution::values ||
         distribution == Distribution::categorical;
}

double scale_of(const ParameterDraft& draft) {
  if (const auto* number = std::get_if<double>(&draft.scale)) return *number;
  if (std::get<ParameterDraft::Scale>(draft.scale) == ParameterDraft::Scale::automatic) return 0.5;
  return 1 / (std::log2(*draft.max) - std::log2(*draft.min));
}

}  // namespace

std::optional<double> read_number(NodeReader& reader, const std::string& what, const Node& node) {
  if (node.kind == Node::Kind::scalar && !node.quoted)
    if (const auto number = parse_number<double>(node.text); number && std::isfinite(*number)) return number;
  reader.refuse(node.position, fmt::format("{} is {}", what, describe(node)), "it must be a number");
  return std::nullopt;
}

std::vector<Value> read_values(NodeReader& reader, const std::string& what, const Node& node) {
  std::vector<Value> values;
  if (node.kind != Node::Kind::list)
    reader.refuse(node.position, fmt::format("{} is {}", what, describe(node)), "it must be a list, as in [8, 16]");
  for (const Node& item : node.items) {
    if (auto value = read_value(item))
      values.push_back(std::move(*value));
    else
      reader.refuse(item.position, fmt::format("{} holds {}", what, describe(item)),
                    "values are numbers, words, true and false");
  }
  return values;
}

std::optional<Parameter> complete(NodeReader& reader, const ParameterDraft& draft) {
  Check check(reader, draft);
  if (!draft.distribution) {
    check.refuse("what it may be is not said",
                 "write value, values, or distribution with min and max; distributions: uniform, int_uniform, "
                 "uniform_pow2, log_uniform, log_normal, logit_normal, categorical");
    return std::nullopt;
  }
  const Distribution distribution = *draft.distribution;
  if (is_list(distribution))
    check.list();
  else
    check.interval(distribution);
  if (!check.passed()) return std::nullopt;
  Parameter parameter{draft.path, distribution,    draft.min.value_or(0), draft.max.value_or(1), draft.step.value_or(0),
                      0,          scale_of(draft), draft.values};
  if (is_list(distribution) && !is_ordered(parameter))
    parameter.centre = to_unit(parameter, parameter.values.front()).value_or(0);
  if (draft.mean) {
    const auto centre = to_unit(parameter, *draft.mean);
    if (!centre) {
      check.refuse(fmt::format("mean is {}", *draft.mean), "it must be one of the values that the parameter can have");
      return std::nullopt;
    }
    parameter.centre = *centre;
  }
  return parameter;
}

}  // namespace muster::sweep

// What answers that are judged by themselves are compared with.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "data/sample.hpp"

namespace muster::data {

// Gives each sample a second one: its prompt with the answer that came before it in the data to another prompt, for the
// first prompt the last answer of all. So it follows from the data alone, whatever a batch is made of.
class JudgedSamples {
 public:
  explicit JudgedSamples(std::int64_t longest) : longest_(static_cast<std::size_t>(longest)) {}

  // Appends the two, unless it is known only at the end what goes with the sample.
  void add(Sample sample, std::vector<Sample>& out);
  // Appends those. Refused: data with one prompt alone.
  Result<void> finish(std::vector<Sample>& out);

 private:
  using Tokens = std::vector<std::int32_t>;
  void add_with(const Tokens& other, Sample sample, std::vector<Sample>& out) const;

  std::size_t longest_;
  std::vector<Sample> first_;    // those of the first prompt
  std::optional<Tokens> other_;  // what goes with the present prompt; absent: it is the first one
  Tokens prompt_, answer_;       // the last sample's
};

}  // namespace muster::data

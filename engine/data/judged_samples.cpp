#include "data/judged_samples.hpp"

#include <algorithm>

namespace muster::data {

void JudgedSamples::add(Sample sample, std::vector<Sample>& out) {
  const auto answer = sample.tokens.begin() + sample.trained.front().begin;
  Tokens prompt(sample.tokens.begin(), answer);
  if (prompt != prompt_ && !prompt_.empty()) other_ = answer_;
  prompt_ = std::move(prompt);
  answer_.assign(answer, sample.tokens.end());
  if (other_)
    add_with(*other_, std::move(sample), out);
  else
    first_.push_back(std::move(sample));
}

Result<void> JudgedSamples::finish(std::vector<Sample>& out) {
  if (!first_.empty() && !other_)
    return bad_input("every row has the same prompt, and answers are compared with those to other prompts",
                     "add rows with other prompts, or train by pairs of answers (training.algorithm=dpo)");
  for (Sample& sample : first_) add_with(answer_, std::move(sample), out);
  first_.clear();
  return {};
}

void JudgedSamples::add_with(const Tokens& other, Sample sample, std::vector<Sample>& out) const {
  const std::uint32_t begin = sample.trained.front().begin;
  Sample second{Tokens(sample.tokens.begin(), sample.tokens.begin() + begin), {}};
  second.tokens.insert(second.tokens.end(), other.begin(), other.end());
  second.tokens.resize(std::min(second.tokens.size(), longest_));
  second.trained.push_back({begin, static_cast<std::uint32_t>(second.tokens.size())});
  out.push_back(std::move(sample));
  out.push_back(std::move(second));
}

}  // namespace muster::data

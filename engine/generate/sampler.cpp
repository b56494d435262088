#include "generate/sampler.hpp"

#include <map>
#include <utility>

namespace muster::generate {
namespace {

constexpr std::int64_t tokens_of_block = 64;

std::int64_t blocks_of(const SamplerOptions& options) {
  return options.generator.most_sequences * ((options.longest + tokens_of_block - 1) / tokens_of_block);
}

}  // namespace

Sampler::Sampler(model::CausalModel& model, tensor::DeviceOps& ops, SamplerOptions options)
    : options_(std::move(options)),
      cache_(model.cache_shape(blocks_of(options_), tokens_of_block)),
      steps_(model, ops, cache_, options_.rules, options_.longest),
      runner_(steps_, options_),
      pool_(blocks_of(options_), tokens_of_block),
      generator_(runner_, pool_, options_.generator) {}

std::vector<Completion> Sampler::complete(const std::vector<Request>& requests,
                                          const std::function<void(std::int64_t ended)>& ended) {
  std::map<std::pair<std::int64_t, std::int64_t>, Completion> found;
  for (const Request& request : requests) {
    generator_.add(request);
    for (const Branch& branch : request.branches)
      found[{branch.index, branch.sample}] = {branch.index, branch.sample, {}, {}, Finish::length};
  }
  while (!generator_.idle()) {
    for (const GeneratedToken& token : generator_.step()) {
      Completion& completion = found.at({token.index, token.sample});
      completion.tokens.push_back(token.token);
      completion.log_probabilities.push_back(token.log_probability);
      if (token.finish) completion.finish = *token.finish;
    }
    if (ended) ended(std::ssize(found) - generator_.load());
  }
  std::vector<Completion> completions;
  for (auto& [place, completion] : found) completions.push_back(std::move(completion));
  return completions;
}

}  // namespace muster::generate

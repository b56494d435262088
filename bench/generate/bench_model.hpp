// A model of random weights, as a benchmark's command line describes it: CONFIG DTYPE DEVICE THREADS …
// DTYPE: float32 or bfloat16; with +int8, +nf4 or +fp4 behind it the linear layers' weights are packed.
#pragma once

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "model/causal_model.hpp"
#include "model/random_source.hpp"
#include "spec/model/model_source.hpp"

namespace muster::bench {

template <class T>
T need(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().what);
  std::exit(2);
}

class BenchModel {
 public:
  BenchModel(const std::vector<std::string>& words, bool deterministic)
      : device_(words.at(2)),
        threads_(std::stoi(words.at(3))),
        ops_(need(tensor::make_device_ops({device_, threads_, spec::Attention::sdpa, deterministic}))),
        model_(load(words)) {
    if (device_.is_cpu()) at::set_num_threads(1);
  }

  const at::Device& device() const { return device_; }
  tensor::DeviceOps& ops() { return ops_; }
  model::CausalModel& model() { return model_; }
  std::int64_t vocabulary() const { return model_.config().vocabulary; }

 private:
  model::CausalModel load(const std::vector<std::string>& words) {
    const std::map<std::string, at::ScalarType> types{{"float32", at::kFloat}, {"bfloat16", at::kBFloat16}};
    const auto description = need(spec::read_model(words.at(0), spec::model_search_from_environment(), std::nullopt));
    const auto source = model::make_random_source(description.config, 1);
    const std::string& dtype = words.at(1);
    const std::size_t plus = dtype.find('+');
    model::LoadOptions options{types.at(dtype.substr(0, plus)), std::nullopt, threads_, {}};
    if (plus != std::string::npos)
      options.forms = need(model::forms_of_weights(description.shape, *source, packed_as(dtype.substr(plus + 1))));
    return need(model::CausalModel::load(description.config, *source, ops_, options));
  }
  static spec::WeightOptions packed_as(const std::string& name) {
    for (const auto& word : spec::words(spec::PackedCode{}))
      if (word.text == name) return {{.code = word.value}, {}};
    fmt::print(stderr, "no weights are packed as {}: int8, nf4 or fp4\n", name);
    std::exit(2);
  }

  at::Device device_;
  int threads_;
  tensor::DeviceOps ops_;
  model::CausalModel model_;
};

}  // namespace muster::bench

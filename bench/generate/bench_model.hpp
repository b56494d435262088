// A model of random weights, as a benchmark's command line describes it: CONFIG DTYPE[+FORM] DEVICE THREADS … FORM is how
// weights are held: bfloat16 (as of a checkpoint in that type), or int8, nf4, fp4 (and the rest of it in bfloat16).
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
#include "spec/values.hpp"

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
    const std::string& type = words.at(1);
    const std::size_t plus = type.find('+');
    model::LoadOptions options{types.at(type.substr(0, plus)), std::nullopt, threads_, {}};
    if (plus != std::string::npos) options.forms = forms(type.substr(plus + 1), description.shape, *source);
    return need(model::CausalModel::load(description.config, *source, ops_, options));
  }

  static model::WeightForms forms(const std::string& form, const spec::ModelShape& shape,
                                  const checkpoint::TensorSource& source) {
    std::optional<spec::WeightOptions> options;
    for (const auto& [word, code] : words(spec::PackedCode{}))
      if (word == form) options = spec::WeightOptions{.packing = {.code = code}};
    if (!options && form != "bfloat16") {
      fmt::print(stderr, "FORM is {}; accepted: bfloat16, int8, nf4, fp4\n", form);
      std::exit(2);
    }
    model::WeightForms all = need(model::forms_of_weights(shape, source, options));
    for (const checkpoint::TensorEntry& entry : source.tensors())
      if (entry.dimensions.rank == 2) all.narrow[entry.name] = at::kBFloat16;
    return all;
  }

  at::Device device_;
  int threads_;
  tensor::DeviceOps ops_;
  model::CausalModel model_;
};

}  // namespace muster::bench

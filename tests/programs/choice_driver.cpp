// Chooses tokens from given logits, for tests that compare the choices with other implementations.
//
// Reads one JSON object a line: {"logits": [numbers], "rules": {"temperature", "top_k", "top_p", "min_p",
// "repetition_penalty"}, "seen": [ids]} with either "uniforms": [chances] or "draws": COUNT, "seed", "index", whose
// chances are then those of the first token of the prompt's first samples. Answers {"tokens"} or {"counts"}, by token.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "generate/random_stream.hpp"
#include "tensor/device_ops.hpp"

namespace {

using namespace muster;
using nlohmann::json;

constexpr std::size_t at_once = 512;

tensor::SamplingRules rules_of(const json& given) {
  tensor::SamplingRules rules;
  rules.temperature = given.value("temperature", 1.0);
  rules.top_k = given.value("top_k", std::int64_t{0});
  rules.top_p = given.value("top_p", 1.0);
  rules.min_p = given.value("min_p", 0.0);
  rules.repetition_penalty = given.value("repetition_penalty", 1.0);
  return rules;
}

std::vector<double> uniforms_of(const json& request) {
  if (request.contains("uniforms")) return request["uniforms"].get<std::vector<double>>();
  generate::RandomStream stream{request["seed"].get<std::uint64_t>(), request["index"].get<std::uint64_t>(), 0};
  std::vector<double> uniforms(request["draws"].get<std::size_t>());
  for (double& uniform : uniforms) {
    uniform = stream.uniform(0);
    ++stream.sample;
  }
  return uniforms;
}

std::vector<std::int32_t> choose(tensor::TokenChoice& choice, const json& request) {
  const auto logits = request["logits"].get<std::vector<float>>();
  const auto seen = request.value("seen", std::vector<std::int32_t>());
  const std::vector<double> uniforms = uniforms_of(request);
  std::vector<std::int32_t> tokens;
  for (std::size_t first = 0; first < uniforms.size(); first += at_once) {
    const std::size_t count = std::min(at_once, uniforms.size() - first);
    std::vector<tensor::TokenQuery> queries;
    for (std::size_t i = first; i < first + count; ++i) queries.push_back({uniforms[i], {}, seen});
    const at::Tensor rows = at::tensor(logits).unsqueeze(0).repeat({static_cast<std::int64_t>(count), 1});
    for (const auto& chosen : choice.choose(rules_of(request["rules"]), rows, queries)) tokens.push_back(chosen.token);
  }
  return tokens;
}

}  // namespace

int main() {
  const auto ops = tensor::make_device_ops({});
  std::string line;
  while (std::getline(std::cin, line)) {
    const json request = json::parse(line);
    const std::vector<std::int32_t> tokens = choose(*ops->token_choice, request);
    json answer;
    if (request.contains("uniforms")) {
      answer["tokens"] = tokens;
    } else {
      std::vector<std::int64_t> counts(request["logits"].size());
      for (const std::int32_t token : tokens) ++counts[static_cast<std::size_t>(token)];
      answer["counts"] = counts;
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
}

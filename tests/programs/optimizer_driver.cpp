// Steps a parameter by AdamW with moments in 8 bits on a CPU device, for tests that compare it with bitsandbytes.
//
// Reads one JSON object a line. {"maps": FILE} writes the signed map and the unsigned one, 256 float32 each.
// {"parameter", "gradients", "type", "steps": [{"rate", "decay", "beta1", "beta2", "epsilon"}, …], "codes", "scales"}:
// gradients has one gradient for each step, one after another; the parameter is replaced; codes and scales are written:
// those of the first moment, then those of the second. Files are nothing but elements. Answers {}.
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kernels/coded/dynamic_map.hpp"
#include "tensor/device_ops.hpp"

namespace {

using namespace muster;
using nlohmann::json;

at::Tensor read(const json& path, at::ScalarType type) {
  std::ifstream file(path.get<std::string>(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  at::Tensor flat = at::empty({static_cast<std::int64_t>(bytes.size() / c10::elementSize(type))}, type);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(flat.mutable_data_ptr()));
  return flat;
}

void write(const json& path, const std::vector<at::Tensor>& parts) {
  std::ofstream file(path.get<std::string>(), std::ios::binary);
  for (const at::Tensor& part : parts)
    file.write(static_cast<const char*>(part.const_data_ptr()), static_cast<std::streamsize>(part.nbytes()));
}

void write_maps(const json& path) {
  std::vector<at::Tensor> maps;
  for (const kernels::DynamicMap* map : {&kernels::signed_map(), &kernels::unsigned_map()}) {
    maps.push_back(at::empty({256}, at::kFloat));
    std::copy_n(map->values, 256, maps.back().mutable_data_ptr<float>());
  }
  write(path, maps);
}

void step(tensor::TrainingOps& training, const json& request) {
  const at::ScalarType type = request["type"] == "float32" ? at::kFloat : at::kBFloat16;
  const at::Tensor parameter = read(request["parameter"], type), gradients = read(request["gradients"], type);
  const std::int64_t count = parameter.numel();
  std::vector<tensor::CodedMoment> moments;
  for (int i = 0; i < 2; ++i)
    moments.push_back({at::zeros({count}, at::kByte),
                       at::zeros({(count + tensor::coded_moment_block - 1) / tensor::coded_moment_block}, at::kFloat)});
  std::int64_t number = 0;
  for (const json& given : request["steps"]) {
    const tensor::AdamWStep rule{.rate = given["rate"],
                                 .beta1 = given["beta1"],
                                 .beta2 = given["beta2"],
                                 .epsilon = given["epsilon"],
                                 .decay = given["decay"],
                                 .step = number + 1};
    training.adamw(parameter, moments[0], moments[1], {gradients.narrow(0, number * count, count), {}}, rule);
    ++number;
  }
  write(request["parameter"], {parameter});
  write(request["codes"], {moments[0].codes, moments[1].codes});
  write(request["scales"], {moments[0].scales, moments[1].scales});
}

}  // namespace

int main() {
  const at::NoGradGuard forward_only;
  const auto ops = tensor::make_device_ops({.threads = 2});
  for (std::string line; std::getline(std::cin, line);) {
    const json request = json::parse(line);
    if (request.contains("maps"))
      write_maps(request["maps"]);
    else
      step(*ops->training, request);
    std::cout << "{}" << std::endl;
  }
}

// Fills packed weights on a CPU device and tells what numbers they have, for tests that compare these with bitsandbytes.
//
// Reads one JSON object a line: {"outputs", "inputs", "packing": {"code", "run", "double_quantized"}, "type"} with
// either "rows": FILE and "rows_type", or "codes": FILE and "scales": FILE; and "numbers": FILE, which it writes: the
// numbers of all rows, of "type". Files are nothing but elements. Answers {}.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

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

void write(const json& path, const at::Tensor& numbers) {
  std::ofstream file(path.get<std::string>(), std::ios::binary);
  file.write(static_cast<const char*>(numbers.const_data_ptr()), static_cast<std::streamsize>(numbers.nbytes()));
}

at::ScalarType type_of(const json& name) {
  return name == "float32" ? at::kFloat : name == "bfloat16" ? at::kBFloat16 : at::kHalf;
}

spec::WeightPacking packing_of(const json& given) {
  const json& code = given["code"];
  return {code == "int8"  ? spec::PackedCode::int8
          : code == "nf4" ? spec::PackedCode::nf4
                          : spec::PackedCode::fp4,
          given.value("run", std::int64_t{64}), given.value("double_quantized", false)};
}

void fill(tensor::Primitives& primitives, const json& request) {
  const auto outputs = request["outputs"].get<std::int64_t>(), inputs = request["inputs"].get<std::int64_t>();
  const spec::WeightPacking packing = packing_of(request["packing"]);
  tensor::Weight weight = primitives.new_weight(outputs, inputs, {type_of(request["type"]), packing});
  if (request.contains("rows")) {
    primitives.fill_rows(weight, 0, read(request["rows"], type_of(request["rows_type"])).view({outputs, inputs}));
    primitives.round_scales(weight, 0, outputs);
  } else {
    const bool has_bytes = packing.code == spec::PackedCode::int8;
    at::Tensor codes = read(request["codes"], has_bytes ? at::kChar : at::kByte);
    if (has_bytes) codes = codes.view({outputs, inputs});
    primitives.fill_codes(weight, 0, {codes, read(request["scales"], at::kFloat)});
  }
  write(request["numbers"], primitives.take_rows(weight, at::arange(outputs, at::kLong)));
}

}  // namespace

int main() {
  const auto ops = tensor::make_device_ops({});
  std::string line;
  while (std::getline(std::cin, line)) {
    fill(*ops->primitives, json::parse(line));
    fmt::print("{{}}\n");
    std::fflush(stdout);
  }
}

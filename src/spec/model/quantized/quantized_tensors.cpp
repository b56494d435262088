#include "spec/model/quantized/quantized_tensors.hpp"

#include <algorithm>
#include <limits>

#include "spec/model/quantized/quantized_methods.hpp"
#include "spec/model/tensor_check.hpp"

namespace muster::spec {
namespace {

bool is_plain_type(ElementType type) {
  return type == ElementType::float64 || type == ElementType::float32 || type == ElementType::float16 ||
         type == ElementType::bfloat16;
}

class TensorFinder {
 public:
  TensorFinder(const ModelShape& shape, const CheckpointQuantization& quantization,
               const std::vector<CheckpointFile>& files)
      : shape_(shape), quantization_(quantization), files_(files) {
    for (const CheckpointFile& file : files)
      for (const StoredTensor& tensor : file.header.tensors) {
        held_.emplace(tensor.name, &tensor);
        sizes_.push_back({tensor.name, tensor.dimensions});
      }
    prefix_ = shape.modules[1].name + ".";
    shortened_ =
        std::ranges::none_of(sizes_, [&](const NamedSizes& tensor) { return tensor.name.starts_with(prefix_); });
  }

  Result<QuantizedTensors> find() {
    for (std::size_t i = 0; i < shape_.tensors.size(); ++i) {
      const TensorShape& tensor = shape_.tensors[i];
      if (tensor.kind != TensorKind::derived && !tensor.same_as) place(TensorId{i}, tensor);
    }
    const std::string source =
        files_.size() == 1 ? files_[0].path.string() : files_[0].path.parent_path().string();
    auto extra = compare_tensors(plain_sizes_, sizes_, source);
    if (!extra) return extra.error();
    if (!problems_.empty()) return tensors_do_not_fit(problems_, source);
    std::erase_if(*extra, [&](const std::string& name) { return used_.contains(name); });
    found_.extra = std::move(*extra);
    return std::move(found_);
  }

 private:
  std::string stored_name(const std::string& path) const {
    return shortened_ && path.starts_with(prefix_) ? path.substr(prefix_.size()) : path;
  }

  void place(TensorId id, const TensorShape& tensor) {
    const std::string path = shape_.path(id);
    std::string stored = stored_name(path);
    if (!is_coded(tensor, stored)) {
      plain_sizes_.push_back({stored, tensor.dimensions});
      found_.plain.push_back({path, std::move(stored)});
      return;
    }
    QuantizedMatrix matrix;
    matrix.name = path;
    matrix.stem = stored.substr(0, stored.size() - tensor.name.size());
    matrix.transposed = shape_.is_transposed(id);
    matrix.rows = tensor.dimensions.sizes[matrix.transposed ? 1 : 0];
    matrix.columns = tensor.dimensions.sizes[matrix.transposed ? 0 : 1];
    QuantizedParts parts(held_, matrix, problems_, used_);
    std::visit([&](const auto& method) { check_parts(method, parts); }, quantization_);
    found_.matrices.push_back(std::move(matrix));
  }

  // The weight is there as another type, or other parts of it are there.
  bool is_coded(const TensorShape& tensor, const std::string& stored) const {
    if (tensor.name != "weight" || tensor.dimensions.rank != 2) return false;
    const auto weight = held_.find(stored);
    if (weight != held_.end() && !is_plain_type(weight->second->type)) return true;
    if (weight != held_.end() && weight->second->dimensions == tensor.dimensions) return false;
    const std::string stem = stored.substr(0, stored.size() - tensor.name.size());
    return std::ranges::any_of(parts_of_codes(quantization_),
                               [&](std::string_view word) { return held_.contains(stem + std::string(word)); });
  }

  const ModelShape& shape_;
  const CheckpointQuantization& quantization_;
  const std::vector<CheckpointFile>& files_;
  HeldTensors held_;
  std::vector<NamedSizes> sizes_, plain_sizes_;
  std::string prefix_;
  bool shortened_ = false;
  std::vector<std::string> problems_;
  std::set<std::string, std::less<>> used_;
  QuantizedTensors found_;
};

}  // namespace

Result<QuantizedTensors> find_quantized_tensors(const ModelShape& shape, const CheckpointQuantization& quantization,
                                                const std::vector<CheckpointFile>& files) {
  return TensorFinder(shape, quantization, files).find();
}

}  // namespace muster::spec

#include "checkpoint/adapters/merge_adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <vector>

#include "checkpoint/adapters/adapter_folder.hpp"
#include "checkpoint/export_model.hpp"
#include "checkpoint/number_conversion.hpp"
#include "spec/model/model_source.hpp"

namespace muster::checkpoint {
namespace {

// left [rows, rank] · right [rank, columns], as the base's tensor lies.
struct Delta {
  std::int64_t rank = 0;
  std::vector<float> left, right;
};

std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows) {
  const std::int64_t columns = std::ssize(matrix) / rows;
  std::vector<float> turned(matrix.size());
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      turned[static_cast<std::size_t>(column * rows + row)] = matrix[static_cast<std::size_t>(row * columns + column)];
  return turned;
}

Result<std::vector<float>> read_matrix(const TensorSource& source, const std::string& name) {
  std::vector<float> numbers(static_cast<std::size_t>(source.find(name)->dimensions.elements()));
  if (auto read = source.read(name, {}, spec::ElementType::float32, std::as_writable_bytes(std::span(numbers))); !read)
    return read.error();
  return numbers;
}

Result<Delta> delta_of(const AdapterFolder& adapter, const spec::AdaptedModule& module, bool turned) {
  auto down = read_matrix(*adapter.tensors, spec::lora_a_name(module.path));
  if (!down) return down.error();
  auto up = read_matrix(*adapter.tensors, spec::lora_b_name(module.path));
  if (!up) return up.error();
  for (float& number : *up) number *= static_cast<float>(module.scale);
  if (!turned) return Delta{module.rank, std::move(*up), std::move(*down)};
  return Delta{module.rank, transposed(*down, module.rank), transposed(*up, module.outputs)};
}

// In the order of the rank, row by row.
void add(const Delta& delta, std::span<float> matrix, std::int64_t rows, int threads) {
  const std::int64_t columns = std::ssize(matrix) / rows;
  const auto add_rows = [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sum(static_cast<std::size_t>(columns));
    for (std::int64_t row = begin; row < end; ++row) {
      std::ranges::fill(sum, 0.0F);
      for (std::int64_t k = 0; k < delta.rank; ++k) {
        const float factor = delta.left[static_cast<std::size_t>(row * delta.rank + k)];
        const float* right = delta.right.data() + k * columns;
        for (std::int64_t column = 0; column < columns; ++column)
          sum[static_cast<std::size_t>(column)] += factor * right[column];
      }
      float* out = matrix.data() + row * columns;
      for (std::int64_t column = 0; column < columns; ++column) out[column] += sum[static_cast<std::size_t>(column)];
    }
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < threads; ++i)
    helpers.emplace_back([&, begin = rows * i / threads, end = rows * (i + 1) / threads] { add_rows(begin, end); });
  add_rows(0, rows / threads);
}

Result<AdapterFolder> open_mergeable(const MergeRequest& request, const spec::ModelShape& shape) {
  auto adapter = open_adapter(request.adapter, shape);
  if (!adapter) return adapter;
  if (adapter->config.options.weight_decomposed)
    return Error{Error::Kind::refused, fmt::format("{} was trained by DoRA, which is not merged here", request.adapter.string()),
                 "merge it with PEFT: merge_and_unload()"};
  return adapter;
}

class Merging {
 public:
  Merging(const MergeRequest& request, const spec::ModelShape& shape, const TensorSource& base,
          const AdapterFolder& adapter)
      : request_(request), shape_(shape), base_(base), adapter_(adapter) {
    for (const spec::AdaptedModule& module : adapter.modules) modules_[shape.path(module.weight)] = &module;
  }

  Result<void> pull(const TensorDeclaration& tensor, std::span<std::byte> out) const {
    if (adapter_.tensors->find(tensor.name) != nullptr) return adapter_.tensors->read(tensor.name, {}, tensor.type, out);
    const auto module = modules_.find(tensor.name);
    if (module == modules_.end()) return base_.read(tensor.name, {}, tensor.type, out);
    const auto delta = delta_of(adapter_, *module->second, shape_.is_transposed(module->second->weight));
    if (!delta) return delta.error();
    auto numbers = read_matrix(base_, tensor.name);
    if (!numbers) return numbers.error();
    add(*delta, *numbers, tensor.dimensions.sizes[0], request_.threads);
    convert_numbers(spec::ElementType::float32, std::as_bytes(std::span(*numbers)), tensor.type, out);
    return {};
  }

 private:
  const MergeRequest& request_;
  const spec::ModelShape& shape_;
  const TensorSource& base_;
  const AdapterFolder& adapter_;
  std::map<std::string, const spec::AdaptedModule*, std::less<>> modules_;  // by the names of their weights
};

}  // namespace

Result<MergedModel> merge_adapter(const MergeRequest& request, const spec::ModelSearch& search) {
  const auto model = spec::read_model(request.model, search, request.dtype);
  if (!model) return model.error();
  const auto path = spec::find_model(request.model, search);
  if (!path) return path.error();
  const auto base = open_checkpoint(request.model, search);
  if (!base) return base.error();
  const auto adapter = open_mergeable(request, model->shape);
  if (!adapter) return adapter.error();
  auto texts = texts_of_model(*path, model->dtype);
  if (!texts) return texts.error();
  ExportRequest folder{.folder = request.folder, .texts = std::move(*texts), .tensors = tensors_to_export(model->shape, model->dtype)};
  ByteCount done, total;
  for (const TensorDeclaration& tensor : folder.tensors)
    total.value += tensor.dimensions.elements() * spec::bytes_per_element(tensor.type);
  const Merging merging(request, model->shape, **base, *adapter);
  const auto written = export_model(folder, [&](const TensorDeclaration& tensor, std::span<std::byte> out) {
    auto pulled = merging.pull(tensor, out);
    done.value += std::ssize(out);
    if (pulled && request.progress) request.progress(done, total);
    return pulled;
  });
  if (!written) return written.error();
  return MergedModel{model->dtype, adapter->modules.size() + adapter->saved.size(), *written};
}

}  // namespace muster::checkpoint

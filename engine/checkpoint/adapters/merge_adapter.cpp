#include "checkpoint/adapters/merge_adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>
#include <vector>

#include "checkpoint/adapters/adapter_folder.hpp"
#include "checkpoint/export_model.hpp"
#include "checkpoint/number_conversion.hpp"
#include "json/json_text.hpp"
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

// DoRA: the numbers that give an output get the length that its magnitude says. turned: they are a column, not a row.
void scale_outputs(std::span<float> matrix, const std::vector<float>& magnitudes, bool turned) {
  const std::size_t outputs = magnitudes.size(), inputs = matrix.size() / outputs;
  std::vector<double> squares(outputs);
  const auto over_all = [&](auto&& use) {
    std::size_t place = 0;
    for (std::size_t row = 0; row < (turned ? inputs : outputs); ++row)
      for (std::size_t column = 0; column < (turned ? outputs : inputs); ++column, ++place)
        use(matrix[place], turned ? column : row);
  };
  over_all([&](float number, std::size_t output) { squares[output] += double{number} * double{number}; });
  std::vector<float> factors(outputs, 1);
  for (std::size_t output = 0; output < outputs; ++output)
    if (squares[output] > 0) factors[output] = magnitudes[output] / static_cast<float>(std::sqrt(squares[output]));
  over_all([&](float& number, std::size_t output) { number *= factors[output]; });
}

// Where the adapter has one of two tied tensors as a whole, the merged model has both.
Result<void> untie(std::vector<NamedText>& texts) {
  for (NamedText& text : texts) {
    if (text.name != "config.json") continue;
    auto object = parse_ordered_json_object(text.text, text.name);
    if (!object) return object.error();
    (*object)["tie_word_embeddings"] = false;
    text.text = object->dump(2) + "\n";
  }
  return {};
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
    const bool turned = shape_.is_transposed(module->second->weight);
    const auto delta = delta_of(adapter_, *module->second, turned);
    if (!delta) return delta.error();
    auto numbers = read_matrix(base_, tensor.name);
    if (!numbers) return numbers.error();
    add(*delta, *numbers, tensor.dimensions.sizes[0], request_.threads);
    if (adapter_.config.options.weight_decomposed) {
      const auto magnitudes = read_matrix(*adapter_.tensors, spec::lora_magnitude_name(module->second->path));
      if (!magnitudes) return magnitudes.error();
      scale_outputs(*numbers, *magnitudes, turned);
    }
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
  auto model = spec::read_model(request.model, search, request.dtype);
  if (!model) return model.error();
  const auto path = spec::find_model(request.model, search);
  if (!path) return path.error();
  const auto base = open_checkpoint(request.model, search);
  if (!base) return base.error();
  const auto head = score_head_of(request.adapter);
  if (!head) return head.error();
  if (*head && !model->config.score) *model = spec::with_score_head(std::move(*model), **head);
  const auto adapter = open_adapter(request.adapter, model->shape);
  if (!adapter) return adapter.error();
  auto texts = texts_of_model(*path, model->dtype);
  if (!texts) return texts.error();
  if (*head)
    if (auto named = name_classifier(*texts, model->config, std::nullopt); !named) return named.error();
  const bool was_tied = model->config.tied;
  *model = spec::beside_adapters(std::move(*model), adapter->config.options);
  if (was_tied && !model->config.tied)
    if (auto untied = untie(*texts); !untied) return untied.error();
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

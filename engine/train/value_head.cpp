#include "train/value_head.hpp"

#include <bit>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/adapters/adapted_source.hpp"
#include "model/random_source.hpp"
#include "spec/model/value_head_file.hpp"

namespace muster::train {

Result<std::unique_ptr<checkpoint::TensorSource>> with_heads(std::unique_ptr<checkpoint::TensorSource> source,
                                                             const wire::TrainTask& task,
                                                             const spec::ModelShape& shape, std::uint64_t seed) {
  if (!task.fresh_head) return source;
  if (!task.value_head) return model::with_fresh_head(std::move(source), shape, seed);
  auto file = checkpoint::open_safetensors(*task.value_head);
  if (!file) return file.error();
  std::vector<std::unique_ptr<checkpoint::TensorSource>> beside;
  beside.push_back(std::move(*file));
  return checkpoint::with_adapters(std::move(source), std::move(beside));
}

spec::ModelDescription without_value_head(spec::ModelDescription model) {
  if (!model.config.score || model.config.score->is_alone()) return model;
  model.config.score.reset();
  model.shape = spec::build_shape(model.config, model.dtype);
  return model;
}

checkpoint::NamedText bring_value_head(const spec::ModelShape& shape, const StateTransfer& transfer, int rank) {
  static_assert(std::endian::native == std::endian::little, "the file's numbers are");
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::string numbers;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const spec::TensorShape& tensor = shape.tensors[i];
    if (tensor.role != spec::TensorRole::score) continue;
    const std::string name = shape.path(spec::TensorId{i});
    at::Tensor values = at::empty({tensor.elements()}, at::kFloat);
    transfer.bring_to_first(name, rank == 0 ? values : at::Tensor());
    const auto sizes = tensor.dimensions.span();
    const std::size_t begin = numbers.size();
    numbers.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
    header[name] = {{"dtype", "F32"},
                    {"shape", std::vector<std::int64_t>(sizes.begin(), sizes.end())},
                    {"data_offsets", {begin, numbers.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const auto length = std::bit_cast<std::array<char, 8>>(std::uint64_t{text.size()});
  return {std::string(spec::value_head_file), std::string(length.begin(), length.end()) + text + numbers};
}

}  // namespace muster::train

#include "job/train/disk_need.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "base/text.hpp"
#include "checkpoint/adapters/adapter_folder.hpp"
#include "checkpoint/export_model.hpp"
#include "checkpoint/logical_tensor.hpp"
#include "spec/coded_states.hpp"

namespace muster::job {
namespace {

constexpr std::int64_t record_bytes_of_step = 1024;           // an event, a row and TensorBoard's numbers
constexpr std::int64_t record_bytes_of_run = std::int64_t{1} << 20;  // settings, plan, plot, logs

ByteCount times(std::int64_t count, ByteCount bytes) { return {count * bytes.value}; }

// What a checkpoint keeps of a tensor: its numbers, and the optimizer's states.
std::int64_t bytes_in_checkpoint(spec::OptimizerKind kind, std::int64_t elements, bool embedding) {
  constexpr std::int64_t width = sizeof(float);
  switch (kind) {
    case spec::OptimizerKind::adamw:
    case spec::OptimizerKind::adamw_fused:
      break;
    case spec::OptimizerKind::adamw_8bit:
      if (!spec::has_coded_states(elements, embedding)) break;
      return width * elements + 2 * spec::coded_state_bytes(elements);
    case spec::OptimizerKind::sgd:
      return width * elements;
    case spec::OptimizerKind::sgd_momentum:
      return 2 * width * elements;
  }
  return 3 * width * elements;
}

// What the answers of all rounds take, were each as long as it may be.
std::int64_t rollout_bytes(const wire::TrainTask& task) {
  if (!task.policy) return 0;
  // An answer's texts and numbers; a token's id and probability, and what was expected of it and came.
  constexpr std::int64_t bytes_of_answer = 400, bytes_of_probability = 32, bytes_of_value = 66;
  const std::int64_t bytes_of_token = bytes_of_probability + (task.critic ? bytes_of_value : 0);
  const std::int64_t updates = (task.policy->answers + task.batch_size - 1) / task.batch_size * task.policy->iterations;
  const std::int64_t rounds = (task.steps + updates - 1) / updates;
  return rounds * task.policy->answers * (bytes_of_answer + task.policy->most_tokens * bytes_of_token);
}

// Checkpoints that a run writes from beginning to end.
std::int64_t saves_of(const wire::TrainTask& task) {
  const std::int64_t regular = task.save_every ? task.steps / *task.save_every : 0;
  const bool last_is_regular = task.save_every && task.steps % *task.save_every == 0;
  return regular + (task.save_at_end == spec::FinalSave::all && !last_is_regular ? 1 : 0);
}

std::vector<checkpoint::TensorDeclaration> adapter_tensors(const spec::ModelShape& shape,
                                                           const spec::AdapterOptions& options) {
  auto tensors = checkpoint::tensors_of_adapter(shape, options);
  if (!tensors) throw std::logic_error("an adapter that the model cannot have: " + tensors.error().what);
  return std::move(*tensors);
}

// In float32.
ByteCount adapter_size(const spec::ModelShape& shape, const spec::AdapterOptions& options) {
  ByteCount bytes;
  for (const checkpoint::TensorDeclaration& tensor : adapter_tensors(shape, options))
    bytes.value += tensor.dimensions.elements() * spec::bytes_per_element(tensor.type);
  return bytes;
}

std::set<std::string> embeddings_of(const spec::ModelShape& shape) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i)
    if (spec::is_embedding(shape.tensors[i].role)) names.insert(shape.path(spec::TensorId{i}));
  return names;
}

std::string parts_of(const DiskNeed& need) {
  std::vector<std::string> parts;
  if (need.most > 0)
    parts.push_back(need.most == 1 ? fmt::format("a checkpoint of {}", to_string(need.checkpoint))
                                   : fmt::format("{} checkpoints of {}{}", need.most, to_string(need.checkpoint),
                                                 need.most > need.kept ? ", one of them being written" : ""));
  if (need.model.value > 0)
    parts.push_back(fmt::format("{} of {}", need.model_is_adapter ? "an adapter" : "a model", to_string(need.model)));
  parts.push_back(fmt::format("records of {}", to_string(need.records)));
  return join(parts, "; ");
}

}  // namespace

ByteCount DiskNeed::peak() const {
  return std::max(times(most, checkpoint), times(kept, checkpoint) + model) + records;
}

ByteCount DiskNeed::needed() const {
  // A resumed run still writes one checkpoint in addition to those that it finds, or the model.
  const ByteCount least = std::max(most > 0 ? checkpoint : ByteCount{}, model) + records;
  return std::max(peak() - present, least);
}

ByteCount checkpoint_size(const spec::ModelShape& shape, const wire::TrainTask& task) {
  const std::set<std::string> embeddings = embeddings_of(shape);
  ByteCount bytes;
  const auto add = [&](const std::string& name, const spec::Dimensions& dimensions) {
    bytes.value += bytes_in_checkpoint(task.optimizer.kind, dimensions.elements(), embeddings.contains(name));
  };
  if (task.adapters)
    for (const checkpoint::TensorDeclaration& tensor : adapter_tensors(shape, *task.adapters))
      add(tensor.name, tensor.dimensions);
  else
    for (const checkpoint::LogicalTensor& tensor : checkpoint::trained_tensors(shape, {}))
      add(tensor.name, tensor.dimensions);
  return bytes;
}

ByteCount export_size(const spec::ModelShape& shape, const wire::TrainTask& task) {
  if (task.save_at_end == spec::FinalSave::nothing) return {};
  if (task.adapters) return adapter_size(shape, *task.adapters);
  const spec::ElementType type = task.compute == spec::ElementType::float16 ? spec::ElementType::float32 : task.compute;
  ByteCount bytes;
  for (const checkpoint::TensorDeclaration& tensor : checkpoint::tensors_to_export(shape, type))
    bytes.value += tensor.dimensions.elements() * spec::bytes_per_element(tensor.type);
  return bytes;
}

DiskNeed disk_need(const wire::TrainTask& task, ByteCount checkpoint, ByteCount model) {
  DiskNeed need;
  const std::int64_t saves = saves_of(task);
  need.checkpoint = checkpoint;
  need.kept = std::min(saves, task.keep.value_or(saves));
  need.most = std::min(saves, task.keep ? *task.keep + 1 : saves);
  need.model = model;
  need.model_is_adapter = task.adapters.has_value();
  need.records = {record_bytes_of_run + task.steps * record_bytes_of_step + rollout_bytes(task)};
  return need;
}

std::string disk_line(const DiskNeed& need) {
  return fmt::format("disk: {} ({}); {} in {}", to_string(need.needed()), parts_of(need),
                     need.free ? to_string(*need.free) + " free" : "free space unknown", need.folder.string());
}

nlohmann::ordered_json disk_json(const DiskNeed& need) {
  return {{"folder", need.folder.string()},
          {"needed_bytes", need.needed().value},
          {"free_bytes", need.free ? nlohmann::ordered_json(need.free->value) : nlohmann::ordered_json(nullptr)},
          {"checkpoint_bytes", need.checkpoint.value},
          {"checkpoints", need.most},
          {"model_bytes", need.model.value},
          {"records_bytes", need.records.value}};
}

Error disk_refusal(const DiskNeed& need, const wire::TrainTask& task) {
  const ByteCount free = need.free.value_or(ByteCount{});
  std::vector<std::string> remedies{
      fmt::format("free {} there", to_string(need.needed() - free)), "--output FOLDER on another disk"};
  const auto fits_with = [&](const wire::TrainTask& other, ByteCount model) {
    DiskNeed changed = disk_need(other, need.checkpoint, model);
    changed.present = need.present;
    changed.free = need.free;
    return changed.fits();
  };
  wire::TrainTask fewer = task;
  for (fewer.keep = need.most - 1; *fewer.keep > 1 && !fits_with(fewer, need.model);) --*fewer.keep;
  if (*fewer.keep >= 1 && fits_with(fewer, need.model))
    remedies.push_back(fmt::format("training.save_total_limit={}", *fewer.keep));
  wire::TrainTask none = task;
  none.save_every.reset();
  none.save_at_end = spec::FinalSave::model;
  if (need.most > 0 && need.model.value > 0 && fits_with(none, need.model))
    remedies.push_back("no checkpoints: training.save_at_end=model, without training.save_steps");
  return {Error::Kind::refused,
          fmt::format("the run needs {} of disk ({}), and {} has {} free", to_string(need.needed()), parts_of(need),
                      need.folder.string(), to_string(free)),
          join(remedies, "; or ")};
}

}  // namespace muster::job

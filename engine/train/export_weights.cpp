#include "train/export_weights.hpp"

#include <algorithm>

#include "system/disk_space.hpp"
#include "checkpoint/adapters/adapter_folder.hpp"
#include "checkpoint/export_model.hpp"
#include "spec/model/adapters/adapter_config.hpp"
#include "spec/model/model_source.hpp"
#include "spec/model/value_head_file.hpp"
#include "tensor/element_types.hpp"
#include "train/progress_sign.hpp"
#include "train/value_head.hpp"

namespace muster::train {
namespace {

// Later, when the other ranks take part, a full disk can no longer be waited for.
Result<void> await_room(const checkpoint::ExportRequest& request, const wire::TrainTask& task,
                        const ExportContext& place) {
  ByteCount needed = mebibytes(1);  // for headers
  for (const checkpoint::TensorDeclaration& tensor : request.tensors)
    needed.value += tensor.dimensions.elements() * spec::bytes_per_element(tensor.type);
  for (const auto& [name, text] : request.texts) needed.value += std::ssize(text);
  DiskWait wait(task.disk_patience, [&](const std::string& what) { place.tell(wire::Waiting{what}); });
  return wait.until_free(request.folder, needed, "the model");
}

spec::ElementType exported_type(const wire::TrainTask& task) {
  return task.compute == spec::ElementType::float16 ? spec::ElementType::float32 : task.compute;
}

// A head for values has a file of its own, which PEFT passes over.
spec::AdapterOptions exported_adapter(const wire::TrainTask& task) {
  spec::AdapterOptions options = *task.adapters;
  if (task.critic) std::erase(options.saved_modules, "v_head");
  return options;
}

// What a finished run leaves, by all ranks of the first copy: these tensors, in this order.
Result<std::vector<checkpoint::TensorDeclaration>> exported_tensors(const wire::TrainTask& task,
                                                                    const spec::ModelDescription& model) {
  if (task.adapters) return checkpoint::tensors_of_adapter(model.shape, exported_adapter(task));
  return checkpoint::tensors_to_export(model.shape, exported_type(task));
}

// A folder is named by its whole path, so that the adapter may be moved; a model's name stays one.
std::string name_of_base(const std::string& model) {
  std::error_code failed;
  const auto whole = std::filesystem::canonical(model, failed);
  return failed ? model : whole.string();
}

// What texts are padded with, unless texts end with it, too.
std::optional<std::int64_t> padding_of(const chat::ModelText& text) {
  const auto named = text.special_tokens().find("pad_token");
  if (named == text.special_tokens().end()) return std::nullopt;
  const auto id = text.tokenizer().find(named->second);
  if (!id || std::ranges::find(text.end_tokens(), *id) != text.end_tokens().end()) return std::nullopt;
  return *id;
}

// As a folder that PEFT loads, with the tokenizer beside it.
Result<ByteCount> write_adapter(const wire::TrainTask& task, const spec::ModelDescription& model,
                                const checkpoint::ExportRequest& request, const checkpoint::PullTensor& pull) {
  checkpoint::AdapterExport adapter{.folder = request.folder, .replace = true, .texts = request.texts, .config = {}};
  std::erase_if(adapter.texts, [](const checkpoint::NamedText& text) {
    return text.name == "config.json" || text.name == "generation_config.json";
  });
  adapter.config.options = exported_adapter(task);
  adapter.config.base_model = name_of_base(task.model);
  if (!model.config.predicts_tokens()) adapter.config.task = spec::classification_task;
  return checkpoint::write_adapter(adapter, model.shape, pull);
}

}  // namespace

Result<void> export_weights(const wire::TrainTask& task, const spec::ModelDescription& trained, const chat::ModelText& text,
                            const StateTransfer& transfer, const ExportContext& place) {
  checkpoint::ExportRequest request;
  const spec::ModelDescription model = without_value_head(trained);
  std::optional<checkpoint::NamedText> values;
  if (task.critic && !task.critic_model) values = bring_value_head(trained.shape, transfer, place.rank);
  auto tensors = exported_tensors(task, model);
  if (!tensors) return tensors.error();
  request.tensors = std::move(*tensors);
  if (place.rank != 0) {
    for (const checkpoint::TensorDeclaration& tensor : request.tensors) transfer.bring_to_first(tensor.name, {});
    return {};
  }
  request.folder = std::filesystem::path(task.run_folder) / place.folder;
  request.replace = true;
  const auto files = spec::find_model(task.model, spec::model_search_from_environment());
  if (!files) return files.error();
  auto texts = checkpoint::texts_of_model(*files, exported_type(task));
  if (!texts) return texts.error();
  request.texts = std::move(*texts);
  if (values) request.texts.push_back(std::move(*values));
  if (!model.config.predicts_tokens() && !task.adapters)
    if (auto named = checkpoint::name_classifier(request.texts, model.config, padding_of(text)); !named) return named;
  if (auto room = await_room(request, task, place); !room) return room;
  ProgressSign sign(place.tell, "writing the model", std::ssize(request.tensors));
  std::int64_t written = 0;
  const auto pull = [&](const checkpoint::TensorDeclaration& tensor, std::span<std::byte> out) -> Result<void> {
    sign.give(written++);
    transfer.bring_to_first(tensor.name,
                            at::from_blob(out.data(), {tensor.dimensions.elements()}, tensor::to_torch(tensor.type)));
    return {};
  };
  const auto done = task.adapters ? write_adapter(task, model, request, pull) : checkpoint::export_model(request, pull);
  if (!done) return done.error();
  return {};
}

}  // namespace muster::train

#include "train/export_weights.hpp"

#include "system/disk_space.hpp"
#include "checkpoint/export_model.hpp"
#include "spec/model/model_source.hpp"
#include "tensor/element_types.hpp"
#include "train/progress_sign.hpp"

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

}  // namespace

Result<void> export_weights(const wire::TrainTask& task, const spec::ModelShape& shape, const StateTransfer& transfer,
                            const ExportContext& place) {
  const spec::ElementType type = task.compute == spec::ElementType::float16 ? spec::ElementType::float32 : task.compute;
  checkpoint::ExportRequest request;
  request.tensors = checkpoint::tensors_to_export(shape, type);
  if (place.rank != 0) {
    for (const checkpoint::TensorDeclaration& tensor : request.tensors) transfer.bring_to_first(tensor.name, {});
    return {};
  }
  request.folder = std::filesystem::path(task.run_folder) / "model";
  request.replace = true;
  const auto files = spec::find_model(task.model, spec::model_search_from_environment());
  if (!files) return files.error();
  auto texts = checkpoint::texts_of_model(*files, type);
  if (!texts) return texts.error();
  request.texts = std::move(*texts);
  if (auto room = await_room(request, task, place); !room) return room;
  ProgressSign sign(place.tell, "writing the model", std::ssize(request.tensors));
  std::int64_t written = 0;
  const auto pull = [&](const checkpoint::TensorDeclaration& tensor, std::span<std::byte> out) -> Result<void> {
    sign.give(written++);
    transfer.bring_to_first(tensor.name,
                            at::from_blob(out.data(), {tensor.dimensions.elements()}, tensor::to_torch(tensor.type)));
    return {};
  };
  if (auto done = checkpoint::export_model(request, pull); !done) return done.error();
  return {};
}

}  // namespace muster::train

#include "checkpoint/export_model.hpp"

#include <fmt/format.h>

#include <system_error>

#include "system/replace_folder.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;

// Without "." and a slash at the end.
fs::path whole_path(const fs::path& folder) {
  std::error_code ignored;
  fs::path whole = fs::absolute(folder, ignored).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

// Where the folder is made: under its own name, or under a hidden one next to it where it is to replace another.
fs::path building_place(const fs::path& folder, bool replace) {
  std::error_code ignored;
  if (!replace || fs::symlink_status(folder, ignored).type() == fs::file_type::not_found) return folder;
  fs::path beside = folder.parent_path() / fmt::format(".{}.next", folder.filename().string());
  fs::remove_all(beside, ignored);  // left by an export that was killed before the rename
  return beside;
}

}  // namespace

std::vector<TensorDeclaration> tensors_to_export(const spec::ModelShape& shape, spec::ElementType type) {
  std::vector<TensorDeclaration> tensors;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const spec::TensorShape& tensor = shape.tensors[i];
    if (tensor.kind == spec::TensorKind::derived || tensor.same_as) continue;
    tensors.push_back({shape.path(spec::TensorId{i}), type, tensor.dimensions});
  }
  return tensors;
}

Result<ByteCount> export_model(const ExportRequest& request, const PullTensor& pull) {
  const fs::path folder = whole_path(request.folder), place = building_place(folder, request.replace);
  auto writer = CheckpointWriter::create(place, request.tensors, request.shard_size, request.stem);
  if (!writer) return writer.error();
  ByteCount total;
  std::vector<std::byte> bytes;
  for (const TensorDeclaration& tensor : request.tensors) {
    const std::int64_t size = tensor.dimensions.elements() * spec::bytes_per_element(tensor.type);
    bytes.resize(static_cast<std::size_t>(size));
    if (const auto pulled = pull(tensor, bytes); !pulled) return pulled.error();
    if (const auto written = writer->write(tensor.name, bytes); !written) return written.error();
    total.value += size;
  }
  for (const auto& [name, text] : request.texts)
    if (const auto added = writer->add_file(name, text); !added) return added.error();
  if (const auto finished = writer->finish(); !finished) return finished.error();
  if (place != folder)
    if (const auto placed = replace_folder(place, folder); !placed) return placed.error();
  return total;
}

Result<ByteCount> export_model(const ExportRequest& request, const TensorSource& source) {
  return export_model(request, [&](const TensorDeclaration& tensor, std::span<std::byte> out) {
    return source.read(tensor.name, {}, tensor.type, out);
  });
}

}  // namespace muster::checkpoint

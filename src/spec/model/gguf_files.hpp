// The files of a GGUF model: one, or the parts that it was split into, "x-00001-of-00003.gguf" and so on.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "spec/model/gguf_header.hpp"

namespace muster::spec {

struct GgufFiles {
  std::vector<std::filesystem::path> paths;
  GgufHeader header;  // the metadata of the first, the tensors of all
};

// first: the only file, or the first part. Refused: another part, a part that is missing, of another model, or under
// another name, and tensors that are too few, too many, or in two parts.
Result<GgufFiles> read_gguf_files(const std::filesystem::path& first);

// All parts that the name of one speaks of, whether they are there or not; of another name, the file alone.
std::vector<std::filesystem::path> gguf_parts_by_name(const std::filesystem::path& file);

// The first part, where the GGUF files of a folder are the parts of one model and nothing else.
std::optional<std::filesystem::path> first_gguf_part(const std::vector<std::filesystem::path>& files);

}  // namespace muster::spec

// A new file next to the place that it will be renamed to.
#pragma once

#include <filesystem>

#include "system/file_descriptor.hpp"

namespace muster {

struct PartFile {
  std::filesystem::path path;
  FileDescriptor file;  // none if it could not be created; errno says why
};

// PLACE.part-PID, or with random digits appended. Always a file that did not exist before: an existing name, even
// a link that someone planted in a folder that many can write to, is neither followed nor overwritten.
PartFile create_part_file(const std::filesystem::path& place);

}  // namespace muster

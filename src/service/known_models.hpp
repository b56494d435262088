// Models that muster can fetch by a short name.
#pragma once

#include <span>
#include <string_view>

#include "base/byte_count.hpp"

namespace muster::service {

struct KnownModel {
  std::string_view name;     // "smollm2"
  std::string_view title;    // "SmolLM2-135M-Instruct"
  std::string_view package;  // the Python package that carries it
  std::string_view version;
  ByteCount download;     // what the package takes
  std::string_view file;  // within the package
  ByteCount bytes;        // of the file
  std::string_view sha256;
  std::string_view licence;
};

std::span<const KnownModel> known_models();
// nullptr if no model has that name.
const KnownModel* find_known_model(std::string_view name);

}  // namespace muster::service

// manifest.json, which makes a folder a training checkpoint.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/logical_tensor.hpp"
#include "checkpoint/training_state.hpp"

namespace muster::checkpoint {

inline constexpr std::string_view manifest_name = "manifest.json";

struct ManifestFile {
  std::uint64_t size = 0;             // bytes of the whole file
  std::uint64_t header_checksum = 0;  // of its length word and header; the header has the checksums of the rest
  bool operator==(const ManifestFile&) const = default;
};

struct TrainingManifest {
  TrainingState state;
  std::vector<LogicalTensor> tensors;
  std::vector<ManifestFile> files;  // one a rank, in order: piece_file_name()
  bool operator==(const TrainingManifest&) const = default;
};

// "rank-2-of-4.state"
std::string piece_file_name(std::size_t rank, std::size_t ranks);

// Refused: what could not be read back as it is (a number that is not finite, a text that is not UTF-8).
Result<std::string> print_manifest(const TrainingManifest& manifest);

// Every byte of the text counts: one that differs from what was written is refused, whether it is JSON or not. source
// names it in messages.
Result<TrainingManifest> parse_manifest(std::string_view text, const std::string& source);

// Closes an object that print_manifest left open before its checksum. For print_manifest, and tests that damage it.
std::string seal_manifest(std::string_view open_object);

}  // namespace muster::checkpoint

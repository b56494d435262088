// One rank's file of a training checkpoint: a safetensors file whose tensors are pieces, "STATE/TENSOR@FIRST".
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "system/regular_file.hpp"
#include "checkpoint/logical_tensor.hpp"

namespace muster::checkpoint {

// Which save a file belongs to.
struct SaveIdentity {
  std::int64_t step = 0;
  std::string attempt;  // the same for all ranks of one start, another one for every start
  bool operator==(const SaveIdentity&) const = default;
};

struct StoredPiece {
  Piece piece;
  std::uint64_t begin = 0;  // bytes from the start of the file
  std::uint64_t checksum = 0;

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(piece.bytes()); }
};

// Length word and header; the pieces' numbers follow, one after the other. checksums: parallel to the pieces.
std::string print_piece_header(const SaveIdentity& identity, std::span<const Piece> pieces,
                               std::span<const std::uint64_t> checksums);

struct PieceFile {
  RegularFile file;
  SaveIdentity identity;
  std::vector<StoredPiece> pieces;  // by place
  std::uint64_t header_checksum = 0;
};

// Reads the header alone. Refused: what print_piece_header would not have written.
Result<PieceFile> open_piece_file(const std::filesystem::path& path);

// All of its bytes, without keeping them. Damage is an error that names file, tensor and elements.
Result<void> verify_piece(const PieceFile& file, const StoredPiece& piece);
Error damaged_piece(const PieceFile& file, const StoredPiece& piece, std::uint64_t seen);

}  // namespace muster::checkpoint

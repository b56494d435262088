// The files that a user's data consists of, and the pieces that threads read them in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace muster::data {

enum class RowFileKind {
  json_lines,  // .jsonl, .json: one row a line
  text,        // .txt: the file is one document
};

struct RowFile {
  std::filesystem::path path;
  RowFileKind kind = RowFileKind::json_lines;
  std::uint64_t size = 0;
};

// A file, or all files of a folder and the folders in it, by name; hidden ones are skipped. Files of other kinds
// are an error that names them.
Result<std::vector<RowFile>> find_row_files(const std::filesystem::path& path);

// Bytes of a file, roughly: what begins in them belongs to the piece, and is read to its end.
struct FilePiece {
  std::size_t file = 0;  // its number in the list
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// In the order of the files. Where a piece begins does not depend on how many threads there are.
std::vector<FilePiece> pieces_of(std::span<const RowFile> files);

// The largest part of a document that is tokenised at once.
constexpr std::uint64_t text_piece_bytes = std::uint64_t{16} << 20;

}  // namespace muster::data

#include "data/piece_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace muster::data {
namespace {

constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// Appends the bytes [begin, end).
Result<void> append(const RegularFile& file, std::uint64_t begin, std::uint64_t end, std::string& text) {
  const std::size_t old = text.size();
  text.resize(old + static_cast<std::size_t>(end - begin));
  return file.read_at(begin, std::as_writable_bytes(std::span(text).subspan(old)));
}

// Where a piece of a document that is meant to begin at `at` does begin.
Result<std::uint64_t> text_boundary(const RegularFile& file, std::uint64_t at) {
  if (at == 0 || at >= file.size()) return std::min(at, file.size());
  std::string text;
  if (auto read = append(file, at - 1, std::min(at + step_bytes, file.size()), text); !read) return read.error();
  if (const std::size_t found = text.find('\n'); found != std::string::npos) return at + found;
  std::size_t inside = 1;  // of the text, where `at` is
  while (inside < text.size() && (static_cast<unsigned char>(text[inside]) & 0xC0) == 0x80) ++inside;
  return at - 1 + inside;
}

}  // namespace

Result<std::string> read_lines(const RegularFile& file, const FilePiece& piece) {
  std::string text;
  const std::uint64_t from = piece.begin == 0 ? 0 : piece.begin - 1;
  if (auto read = append(file, from, piece.end, text); !read) return read.error();
  if (piece.begin > 0) {
    const std::size_t newline = text.find('\n');
    if (newline == std::string::npos || newline + 1 == text.size()) return std::string();
    text.erase(0, newline + 1);
  }
  const std::size_t last_line = text.rfind('\n') + 1;  // where it begins; 0 where there is no newline
  std::uint64_t at = piece.end;
  while (at < file.size() && text.back() != '\n' && text.size() - last_line <= longest_row) {
    const std::size_t old = text.size();
    const std::uint64_t end = std::min(at + step_bytes, file.size());
    if (auto read = append(file, at, end, text); !read) return read.error();
    if (const std::size_t newline = text.find('\n', old); newline != std::string::npos) text.resize(newline + 1);
    at = end;
  }
  return text;
}

Result<DocumentPart> read_part(const RegularFile& file, const FilePiece& piece) {
  const auto begin = text_boundary(file, piece.begin);
  if (!begin) return begin.error();
  const auto end = text_boundary(file, piece.end);
  if (!end) return end.error();
  DocumentPart part;
  if (*begin >= *end) return part;
  part.begins = *begin == 0;
  part.ends = *end == file.size();
  if (auto read = append(file, *begin, *end, part.text); !read) return read.error();
  return part;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace muster::data

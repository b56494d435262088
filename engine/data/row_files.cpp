#include "data/row_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "system/regular_file.hpp"
#include "base/text.hpp"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t row_piece_bytes = std::uint64_t{2} << 20;
constexpr std::size_t most_named = 10;

std::optional<RowFileKind> kind_of(const fs::path& path) {
  const std::string extension = to_lower(path.extension().string());
  if (extension == ".jsonl" || extension == ".json") return RowFileKind::json_lines;
  if (extension == ".txt") return RowFileKind::text;
  return std::nullopt;
}

Problem unknown_kind(const fs::path& path) {
  if (to_lower(path.extension().string()) == ".parquet")
    return {path.string(), "Parquet is not read",
            fmt::format("python -c \"import pandas; pandas.read_parquet('{}').to_json('{}', orient='records', "
                        "lines=True, force_ascii=False)\"",
                        path.string(), fs::path(path).replace_extension(".jsonl").string())};
  return {path.string(), "not a file of rows, by its name", "accepted: .jsonl and .json (one JSON object a line), .txt"};
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

Error unreadable(const fs::path& path, const std::error_code& failure) {
  return {Error::Kind::bad_input, fmt::format("{} cannot be read: {}", path.string(), failure.message()),
          "give a file or a folder of .jsonl and .txt files"};
}

Result<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, failure), end;
  while (!failure && entry != end) {
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored);
    if (is_folder && is_hidden(entry->path()))
      entry.disable_recursion_pending();
    else if (!is_folder && !is_hidden(entry->path()))
      files.push_back(entry->path());
    entry.increment(failure);
  }
  if (failure) return unreadable(folder, failure);
  std::ranges::sort(files, {}, [](const fs::path& path) { return path.string(); });
  return files;
}

}  // namespace

Result<std::vector<RowFile>> find_row_files(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status))
    return Error{Error::Kind::bad_input, fmt::format("there is no {}", path.string()),
                 "give a file or a folder of .jsonl and .txt files, or builtin:arithmetic"};
  std::vector<fs::path> paths{path};
  if (fs::is_directory(status)) {
    auto below = files_below(path);
    if (!below) return below.error();
    paths = std::move(*below);
  }
  std::vector<RowFile> files;
  std::vector<Problem> problems;
  for (const fs::path& each : paths) {
    const auto kind = kind_of(each);
    if (!kind) {
      if (problems.size() < most_named) problems.push_back(unknown_kind(each));
      continue;
    }
    const auto file = RegularFile::open(each);
    if (!file) return file.error();
    files.push_back({each, *kind, file->size()});
  }
  if (!problems.empty()) return to_error(problems);
  if (files.empty())
    return Error{Error::Kind::bad_input, fmt::format("the folder {} holds no files", path.string()),
                 "put .jsonl or .txt files into it"};
  return files;
}

std::vector<FilePiece> pieces_of(std::span<const RowFile> files) {
  std::vector<FilePiece> pieces;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::uint64_t length = files[i].kind == RowFileKind::text ? text_piece_bytes : row_piece_bytes;
    for (std::uint64_t at = 0; at < files[i].size; at += length)
      pieces.push_back({i, at, std::min(at + length, files[i].size)});
  }
  return pieces;
}

}  // namespace muster::data

#include "spec/model/gguf_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "json/json_text.hpp"
#include "system/files.hpp"

namespace muster::spec {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view fetch_all_parts = "fetch all parts of the model again, into one folder";

Error parts_refusal(const fs::path& file, std::string_view what, std::string_view remedy) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", file.string(), what), std::string(remedy)};
}

struct PartName {
  std::string stem;  // "x"
  std::int64_t number = 0, count = 0;

  fs::path other(std::int64_t part) const { return fmt::format("{}-{:05}-of-{:05}.gguf", stem, part, count); }
};

// What the name of a part says: "x-00001-of-00003.gguf".
std::optional<PartName> read_part_name(const fs::path& file) {
  constexpr std::size_t ending = std::string_view("-00001-of-00003").size();
  const std::string name = file.stem().string();
  if (file.extension() != ".gguf" || name.size() < ending) return std::nullopt;
  const std::string_view end = std::string_view(name).substr(name.size() - ending);
  if (end[0] != '-' || end.substr(6, 4) != "-of-") return std::nullopt;
  const auto number = parse_number<std::uint32_t>(end.substr(1, 5)), count = parse_number<std::uint32_t>(end.substr(10));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return PartName{name.substr(0, name.size() - ending), *number, *count};
}

// What a file says of the model that it is a part of.
struct PartClaim {
  std::int64_t number = 0, count = 1;  // from 0 on
  std::optional<std::int64_t> tensors;
};

Result<PartClaim> read_claim(const GgufHeader& header, const fs::path& file) {
  PartClaim claim;
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) {
    const auto entry = header.metadata.find(key);
    if (entry == header.metadata.end()) continue;
    const auto* number = std::get_if<std::int64_t>(&entry->second);
    if (number == nullptr || *number < 0)
      return parts_refusal(file, fmt::format("{} is not a whole number", key), fetch_all_parts);
    const std::string_view word = key;
    if (word == "split.no")
      claim.number = *number;
    else if (word == "split.count")
      claim.count = std::max<std::int64_t>(1, *number);
    else
      claim.tensors = *number;
  }
  return claim;
}

// The parts by their names, which must say what the first of them says.
Result<std::vector<fs::path>> paths_of(const PartClaim& claim, const fs::path& file) {
  const auto name = read_part_name(file);
  if (claim.number != 0)
    return parts_refusal(file, fmt::format("is part {} of {}", claim.number + 1, claim.count),
                         name ? fmt::format("name the first: {}", (file.parent_path() / name->other(1)).string())
                              : "name the first part");
  if (!name || name->number != 1 || name->count != claim.count)
    return parts_refusal(
        file,
        fmt::format("is the first of {} parts, and its name does not end in -00001-of-{:05}.gguf", claim.count,
                    claim.count),
        "give all parts the names that they were made with");
  return gguf_parts_by_name(file);
}

Result<void> add_part(GgufFiles& files, std::size_t number, const PartClaim& first) {
  const fs::path& path = files.paths[number];
  if (!path_exists(path))
    return parts_refusal(path, fmt::format("is missing, and the model is in {} files", first.count), fetch_all_parts);
  auto header = read_gguf_header(path);
  if (!header) return header.error();
  const auto claim = read_claim(*header, path);
  if (!claim) return claim.error();
  if (claim->number != static_cast<std::int64_t>(number) || claim->count != first.count)
    return parts_refusal(path,
                         fmt::format("holds part {} of {}, and must hold part {} of {}", claim->number + 1, claim->count,
                                     number + 1, first.count),
                         fetch_all_parts);
  if (claim->tensors != first.tensors)
    return parts_refusal(path, fmt::format("is a part of another model than {}", files.paths[0].filename().string()),
                         fetch_all_parts);
  for (GgufTensor& tensor : header->tensors) {
    tensor.file = number;
    files.header.tensors.push_back(std::move(tensor));
  }
  return {};
}

Result<void> check_tensors(const GgufFiles& files, const PartClaim& first) {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : files.header.tensors)
    if (!names.insert(tensor.name).second)
      return parts_refusal(files.paths[tensor.file],
                           fmt::format("holds tensor {}, which a part before it holds, too",
                                       shown(nlohmann::json(tensor.name))),
                           fetch_all_parts);
  if (!first.tensors || static_cast<std::int64_t>(names.size()) == *first.tensors) return {};
  return parts_refusal(files.paths[0],
                       fmt::format("its {} parts hold {} tensors, and split.tensors.count is {}", first.count,
                                   names.size(), *first.tensors),
                       fetch_all_parts);
}

}  // namespace

std::vector<fs::path> gguf_parts_by_name(const fs::path& file) {
  const auto name = read_part_name(file);
  if (!name) return {file};
  std::vector<fs::path> paths;
  for (std::int64_t part = 1; part <= name->count; ++part) paths.push_back(file.parent_path() / name->other(part));
  return paths;
}

std::optional<fs::path> first_gguf_part(const std::vector<fs::path>& files) {
  std::optional<PartName> first;
  for (const fs::path& file : files) {
    auto name = read_part_name(file);
    if (!name || (first && (name->stem != first->stem || name->count != first->count))) return std::nullopt;
    first = std::move(name);
  }
  if (!first) return std::nullopt;
  return files[0].parent_path() / first->other(1);
}

Result<GgufFiles> read_gguf_files(const fs::path& first) {
  auto header = read_gguf_header(first);
  if (!header) return header.error();
  const auto claim = read_claim(*header, first);
  if (!claim) return claim.error();
  GgufFiles files{{first}, std::move(*header)};
  if (claim->count == 1) return files;
  auto paths = paths_of(*claim, first);
  if (!paths) return paths.error();
  files.paths = std::move(*paths);
  for (std::size_t number = 1; number < files.paths.size(); ++number)
    if (auto added = add_part(files, number, *claim); !added) return added.error();
  if (auto checked = check_tensors(files, *claim); !checked) return checked.error();
  return files;
}

}  // namespace muster::spec

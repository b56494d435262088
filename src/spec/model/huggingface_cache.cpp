#include "spec/model/huggingface_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "system/files.hpp"
#include "base/text.hpp"
#include "json/json_text.hpp"

namespace muster::spec {
namespace {

namespace fs = std::filesystem;

bool is_plain(std::string_view part) {
  const auto accepted = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '.' || letter == '_' || letter == '-';
  };
  return !part.empty() && part.size() <= 96 && part.front() != '.' && std::ranges::all_of(part, accepted);
}

}  // namespace

bool is_hub_name(const std::string& model) {
  const std::vector<std::string> parts = split(model, '/');
  return parts.size() <= 2 && std::ranges::all_of(parts, is_plain);
}

Result<fs::path> find_in_hub_cache(const std::string& model, const fs::path& hub_cache) {
  std::string name = "models";
  for (const std::string& part : split(model, '/')) name += "--" + part;
  const fs::path folder = hub_cache / name;
  const auto missing = [](std::string what) { return Error{Error::Kind::bad_input, std::move(what), ""}; };
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return missing(fmt::format("no folder {}", folder.string()));
  const auto reference = read_file(folder / "refs" / "main");
  if (!reference)
    return missing(fmt::format("{} does not say which download is meant", (folder / "refs/main").string()));
  const std::string commit(trim(*reference));
  const fs::path snapshot = folder / "snapshots" / commit;
  if (!is_plain(commit) || !fs::is_directory(snapshot, ignored))
    return missing(fmt::format("{} names a download that is not there: {}", (folder / "refs/main").string(),
                               shown(nlohmann::json(commit))));
  return snapshot;
}

}  // namespace muster::spec

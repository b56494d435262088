#include "spec/huggingface_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/files.hpp"
#include "base/text.hpp"
#include "spec/json_text.hpp"
#include "spec/model_source.hpp"

namespace muster::spec {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// "~/cache" as a shell would read it.
fs::path expand(const std::string& path) {
  if (path == "~" || path.starts_with("~/")) return environment("HOME") + path.substr(1);
  return path;
}

bool is_plain(std::string_view part) {
  const auto accepted = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '.' || letter == '_' || letter == '-';
  };
  return !part.empty() && part.size() <= 96 && part.front() != '.' && std::ranges::all_of(part, accepted);
}

}  // namespace

ModelSearch model_search_from_environment() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return {expand(cache)};
  if (const std::string home = environment("HF_HOME"); !home.empty()) return {expand(home) / "hub"};
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    return {expand(cache) / "huggingface" / "hub"};
  return {expand("~/.cache/huggingface/hub")};
}

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

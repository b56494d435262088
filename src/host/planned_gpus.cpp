#include "host/planned_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.hpp"
#include "system/staged_folder.hpp"
#include "system/subprocess.hpp"

namespace muster::host {
namespace {

constexpr std::chrono::minutes longest(2);  // of one dry run
constexpr std::array<std::string_view, 3> planning{"evaluate", "generate", "train"};

bool is_planning(const std::vector<std::string>& command) {
  return command.size() >= 2 && std::filesystem::path(command[0]).filename() == "muster" &&
         std::ranges::find(planning, command[1]) != planning.end();
}

// An inventory file of the same GPUs, with nothing on them.
std::string as_if_free(const gpu::Snapshot& snapshot) {
  auto gpus = nlohmann::ordered_json::array();
  for (const gpu::Gpu& gpu : snapshot.gpus) {
    nlohmann::ordered_json one{{"index", static_cast<int>(gpu.facts.index)}};
    if (gpu.facts.uuid) one["uuid"] = gpu.facts.uuid->text;
    if (gpu.facts.name) one["name"] = *gpu.facts.name;
    if (gpu.facts.memory_total) one["memory_total"] = gpu.facts.memory_total->value;
    if (const auto capability = gpu.facts.compute_capability)
      one["compute_capability"] = fmt::format("{}.{}", capability->major, capability->minor);
    gpus.push_back(std::move(one));
  }
  return nlohmann::ordered_json{{"gpus", std::move(gpus)}}.dump();
}

}  // namespace

Result<int> planned_gpus(const HostSources& sources, const std::vector<std::string>& command,
                         const std::filesystem::path& folder) {
  if (!is_planning(command))
    return Error{
        Error::Kind::bad_input,
        fmt::format("\"{}\" has no plan: only muster train, generate and evaluate have one", join(command, " ")),
        "-n 2, say: the number of GPUs that it wants"};
  const auto view = Host(sources).look(gpu::Detail::everything);
  if (!view) return view.error();
  const auto scratch = StagedFolder::create(folder / "plan");
  if (!scratch) return scratch.error();
  if (auto written = scratch->write("gpus.json", as_if_free(view->snapshot)); !written) return written.error();
  const std::vector<std::pair<std::string, std::string>> environment{
      {"MUSTER_GPUS", (scratch->path() / "gpus.json").string()},
      {"MUSTER_LEASE_DIR", (scratch->path() / "leases").string()}};
  const auto most = static_cast<int>(view->visible.size());
  std::string refusal = "no GPU is visible";
  for (int count = 1; count <= most; ++count) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--num-gpus", std::to_string(count), "--dry-run"});
    const auto asked = run_process(words, environment, longest);
    if (!asked) return asked.error();
    if (asked->end.exit_code == 0) return count;
    refusal = std::string(trim(asked->errors));
    if (asked->end.exit_code != exit_code(Error::Kind::refused))
      return Error{Error::Kind::bad_input, fmt::format("its plan cannot be made: {}", refusal), ""};
  }
  return Error{Error::Kind::refused, fmt::format("its plan fits no number of GPUs up to {}: {}", most, refusal), ""};
}

}  // namespace muster::host

#include "host/memory_wait.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "host/reclaim.hpp"
#include "system/subprocess.hpp"

namespace muster::host {
namespace {

bool is_back(const gpu::Gpu& gpu, const std::vector<UsedBefore>& before) {
  const auto found = std::ranges::find_if(before, [&](const UsedBefore& used) {
    return (gpu.facts.uuid && used.gpu == gpu.facts.uuid->text) ||
           used.gpu == std::to_string(gpu::number(gpu.facts.index));
  });
  if (found == before.end()) return true;
  lease::Holder last;
  last.memory_before = found->memory;
  return memory_is_back(last, gpu);
}

}  // namespace

std::string to_word(const UsedBefore& used) { return fmt::format("{}={}", used.gpu, used.memory.value); }

Result<UsedBefore> read_used_before(const std::string& word) {
  const auto equals = word.find('=');
  const auto bytes = parse_number<std::int64_t>(equals == std::string::npos ? "" : word.substr(equals + 1));
  if (!bytes || *bytes < 0)
    return Error{Error::Kind::bad_input, fmt::format("\"{}\" is not a GPU and its bytes", word), "GPU-1234=0"};
  return UsedBefore{word.substr(0, equals), ByteCount{*bytes}};
}

Result<void> wait_for_memory(const HostSources& sources, const std::vector<UsedBefore>& before,
                             std::chrono::milliseconds most) {
  constexpr std::chrono::milliseconds between_looks(20);
  Host host(sources);
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (true) {
    const auto view = host.look(gpu::Detail::memory);
    if (!view) return view.error();
    if (std::ranges::all_of(view->snapshot.gpus, [&](const gpu::Gpu& gpu) { return is_back(gpu, before); })) return {};
    if (std::chrono::steady_clock::now() >= deadline)
      return Error{
          Error::Kind::refused,
          fmt::format("the memory of those who had its GPUs before is not back after {}", muster::to_string(most)),
          "muster gpus shows the processes that use it"};
    std::this_thread::sleep_for(between_looks);
  }
}

std::vector<std::pair<std::string, std::string>> environment_of(const HostSources& sources) {
  std::vector<std::pair<std::string, std::string>> environment{{"MUSTER_LEASE_DIR", sources.lease_folder.string()}};
  if (sources.inventory_file) environment.emplace_back("MUSTER_GPUS", sources.inventory_file->string());
  if (sources.nvml_library) environment.emplace_back("MUSTER_NVML_LIBRARY", sources.nvml_library->string());
  if (sources.mask) environment.emplace_back("CUDA_VISIBLE_DEVICES", *sources.mask);
  return environment;
}

std::function<Result<void>()> memory_wait(HostSources sources, std::vector<UsedBefore> before,
                                          std::chrono::milliseconds most) {
  return [sources = std::move(sources), before = std::move(before), most]() -> Result<void> {
    constexpr std::chrono::seconds for_the_rest(30);
    std::vector<std::string> command{"/proc/self/exe", "gpus", "await-memory", "--within",
                                     fmt::format("{}ms", most.count())};
    for (const UsedBefore& used : before) command.push_back(to_word(used));
    const auto asked = run_process(command, environment_of(sources), most + for_the_rest);
    if (!asked) return asked.error();
    if (asked->end.exit_code == 0) return {};
    return Error{Error::Kind::refused,
                 asked->end.exit_code ? std::string(trim(asked->errors)) : describe(asked->end, most + for_the_rest),
                 ""};
  };
}

}  // namespace muster::host

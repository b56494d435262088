#include "doctor/worker_probe.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.hpp"
#include "system/subprocess.hpp"

namespace muster::doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_workers = 8;
constexpr int cpu_workers = 2;

template <class T>
std::optional<T> value_of(const Json& json, const char* key) {
  return json.at(key).is_null() ? std::nullopt : std::optional(json.at(key).get<T>());
}

template <class T>
Json to_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::vector<WorkerFacts> workers_to_start(const host::HostView& view) {
  std::vector<WorkerFacts> workers;
  for (std::size_t i = 0; i < view.visible.size() && workers.size() < most_workers; ++i) {
    const gpu::VisibleDevice& device = view.visible[i];
    if (view.gpu_of(device).lost || !device.uuid) continue;
    WorkerFacts& worker = workers.emplace_back();
    worker.gpu = gpu::number(device.gpu);
    worker.expected = {device.uuid->text};
    const gpu::VisibleIndex chosen{static_cast<int>(i)};
    auto mask = host::mask_for(view, {&chosen, 1}, gpu::MaskForm::as_inherited);
    if (mask)
      worker.mask = std::move(*mask);
    else
      worker.report = mask.error();
  }
  if (workers.empty()) workers.resize(cpu_workers);
  return workers;
}

Result<WorkerReport> start_worker(const WorkerFacts& worker, const host::HostSources& sources,
                                  const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  auto environment = gpu::mask_environment(worker.mask);
  if (sources.inventory_file) environment.emplace_back("MUSTER_GPUS", sources.inventory_file->string());
  if (sources.nvml_library) environment.emplace_back("MUSTER_NVML_LIBRARY", sources.nvml_library->string());
  const auto run = run_process(command, environment, limit);
  if (!run) return run.error();
  if (run->end.exit_code != 0)
    return Error{Error::Kind::failed,
                 fmt::format("{}{}{}", describe(run->end, limit), run->errors.empty() ? "" : ": ", trim(run->errors)),
                 "run it by hand: " + join(command, " ")};
  return parse_worker_report(run->output);
}

}  // namespace

std::string worker_report(const host::HostSources& sources) {
  WorkerReport report;
  if (const char* order = std::getenv("CUDA_DEVICE_ORDER")) report.device_order = order;
  host::Host host(sources);
  if (const auto view = host.look(gpu::Detail::memory)) {
    report.visible.emplace();
    for (const gpu::VisibleDevice& device : view->visible)
      report.visible->push_back(device.uuid ? device.uuid->text : "lost");
  } else {
    report.problem = view.error().what;
  }
  return Json{{"pid", ::getpid()},
              {"mask", to_json(sources.mask)},
              {"device_order", to_json(report.device_order)},
              {"visible", to_json(report.visible)},
              {"problem", to_json(report.problem)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<WorkerReport> parse_worker_report(std::string_view text) try {
  const Json json = Json::parse(text);
  WorkerReport report;
  report.pid = json.at("pid").get<pid_t>();
  report.mask = value_of<std::string>(json, "mask");
  report.device_order = value_of<std::string>(json, "device_order");
  report.visible = value_of<std::vector<std::string>>(json, "visible");
  report.problem = value_of<std::string>(json, "problem");
  return report;
} catch (const Json::exception& problem) {
  const std::string_view shown = trim(text).substr(0, 200);
  return Error{Error::Kind::failed,
               fmt::format("said something else than its report: \"{}\" ({})", shown, problem.what()),
               "check that nothing that is loaded into every program writes to standard output (LD_PRELOAD)"};
}

std::vector<WorkerFacts> probe_workers(const host::HostView& view, const host::HostSources& sources,
                                       const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  std::vector<WorkerFacts> workers = workers_to_start(view);
  std::vector<std::jthread> waiting;
  for (WorkerFacts& worker : workers)
    if (worker.report) waiting.emplace_back([&] { worker.report = start_worker(worker, sources, command, limit); });
  waiting.clear();
  return workers;
}

}  // namespace muster::doctor

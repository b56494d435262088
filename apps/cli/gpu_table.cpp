#include "cli/gpu_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.hpp"
#include "base/text.hpp"
#include "gpu/health.hpp"

namespace muster::cli {
namespace {

std::string heading(const host::HostView& view) {
  std::string text = fmt::format("Available GPUs: {}\n", view.visible.size());
  if (view.snapshot.gpus.empty() && !view.snapshot.explanation.empty())
    text += fmt::format("({})\n", view.snapshot.explanation);
  return text;
}

std::string memory_bar(const gpu::Gpu& gpu) {
  if (!gpu.facts.memory_total || !gpu.reading.memory_used || gpu.facts.memory_total->value == 0) return "";
  constexpr int width = 10;
  const double share =
      static_cast<double>(gpu.reading.memory_used->value) / static_cast<double>(gpu.facts.memory_total->value);
  const int filled = std::clamp(static_cast<int>(share * width + 0.5), 0, width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  return bar;
}

Colour load_colour(const gpu::Gpu& gpu) {
  if (!gpu.facts.memory_total || !gpu.reading.memory_used) return Colour::dim;
  const double share = static_cast<double>(gpu.reading.memory_used->value) /
                       static_cast<double>(std::max<std::int64_t>(1, gpu.facts.memory_total->value));
  return share > 0.9 ? Colour::red : share > 0.1 ? Colour::yellow : Colour::green;
}

template <class Value>
std::string known(const std::optional<Value>& value, std::string_view unit) {
  return value ? fmt::format("{} {}", *value, unit) : "–";
}

std::string power(const gpu::GpuReading& reading) {
  if (!reading.power) return "–";
  return reading.power_limit ? fmt::format("{:.0f}/{:.0f} W", *reading.power, *reading.power_limit)
                             : fmt::format("{:.0f} W", *reading.power);
}

// What uses a GPU, most important first: sick, leased, in use, free.
Cell state(const host::HostView& view, const gpu::Gpu& gpu, const std::optional<gpu::GpuUuid>& uuid, bool hidden) {
  std::vector<std::string> facts;
  Colour colour = Colour::green;
  if (const auto sickness = gpu::sickness(gpu)) {
    facts.push_back("unhealthy: " + *sickness);
    colour = Colour::red;
  }
  if (uuid) {
    const auto holder = view.holders.find(uuid->text);
    if (holder != view.holders.end()) {
      facts.push_back("leased by " + lease::describe(holder->second));
      if (colour == Colour::green) colour = Colour::yellow;
    }
  }
  std::vector<std::string> users, screens;
  for (const gpu::GpuProcess& process : gpu.processes)
    (process.graphics ? screens : users)
        .push_back(fmt::format("{} (pid {}{})", process.user.value_or("an unknown user"), process.pid,
                               process.memory ? ", " + to_string(*process.memory) : ""));
  if (!users.empty()) {
    facts.push_back("in use by " + join(users, ", "));
    if (colour == Colour::green) colour = Colour::yellow;
  }
  if (facts.empty() && !screens.empty()) facts.emplace_back("free");
  if (!screens.empty()) facts.push_back("graphics by " + join(screens, ", "));
  if (hidden) facts.emplace_back("hidden by CUDA_VISIBLE_DEVICES");
  if (facts.empty()) return {"free", colour};
  return {join(facts, "; "), hidden ? Colour::dim : colour};
}

// Whether some GPU's number is not its id: then both are shown.
bool ids_differ(const host::HostView& view) {
  if (view.visible.size() != view.snapshot.gpus.size()) return true;
  for (std::size_t i = 0; i < view.visible.size(); ++i)
    if (gpu::number(view.visible[i].gpu) != static_cast<int>(i)) return true;
  return false;
}

std::vector<Cell> row(const host::HostView& view, const gpu::Gpu& gpu, std::optional<std::size_t> id,
                      const gpu::MigInstance* instance) {
  const bool hidden = !id.has_value();
  const Colour text = hidden ? Colour::dim : Colour::plain;
  std::string name = gpu.facts.name.value_or("unknown GPU");
  if (instance != nullptr) name += fmt::format(" {}", instance->name.value_or("MIG instance"));
  const auto total = instance != nullptr ? instance->memory_total : gpu.facts.memory_total;
  const bool whole = instance == nullptr;
  const std::string used = whole && gpu.reading.memory_used ? to_string(*gpu.reading.memory_used) : "–";
  std::vector<Cell> cells{{id ? std::to_string(*id) : "-", hidden ? Colour::dim : Colour::bold, true}};
  if (ids_differ(view)) cells.push_back({std::to_string(gpu::number(gpu.facts.index)), Colour::dim, true});
  const std::vector<Cell> rest{
      {name, text},
      {whole ? memory_bar(gpu) : "", hidden ? Colour::dim : load_colour(gpu)},
      {fmt::format("{} / {}", used, total ? to_string(*total) : "–"), text, true},
      {known(gpu.reading.utilization, "%"), text, true},
      {known(gpu.reading.temperature, "°C"), text, true},
      {power(gpu.reading), text, true},
      state(view, gpu, instance != nullptr ? std::optional(instance->uuid) : gpu.facts.uuid, hidden)};
  cells.insert(cells.end(), rest.begin(), rest.end());
  return cells;
}

std::optional<std::size_t> visible_position(const host::HostView& view, const gpu::Gpu& gpu,
                                            std::optional<std::size_t> mig) {
  for (std::size_t i = 0; i < view.visible.size(); ++i)
    if (view.visible[i].gpu == gpu.facts.index && view.visible[i].mig == mig) return i;
  return std::nullopt;
}

}  // namespace

std::string gpu_table(const host::HostView& view, bool colour) {
  std::string text = heading(view);
  if (view.snapshot.gpus.empty()) return text;
  std::vector<std::vector<Cell>> rows;
  rows.push_back({});
  for (const char* title : {"id", "gpu", "name", "", "memory", "util", "temp", "power", "state"}) {
    const std::string_view name = title;
    if (name == "gpu" && !ids_differ(view)) continue;
    rows.back().push_back(
        {title, Colour::dim,
         name == "id" || name == "gpu" || name == "memory" || name == "util" || name == "temp" || name == "power"});
  }
  for (const gpu::Gpu& gpu : view.snapshot.gpus) {
    if (!gpu.facts.mig_mode || gpu.facts.mig_instances.empty())
      rows.push_back(row(view, gpu, visible_position(view, gpu, std::nullopt), nullptr));
    for (std::size_t i = 0; i < gpu.facts.mig_instances.size(); ++i)
      rows.push_back(row(view, gpu, visible_position(view, gpu, i), &gpu.facts.mig_instances[i]));
  }
  return text + format_table(rows, colour);
}

std::string gpu_lines(const host::HostView& view) {
  std::string text = heading(view);
  for (std::size_t i = 0; i < view.visible.size(); ++i) {
    const gpu::Gpu& gpu = view.gpu_of(view.visible[i]);
    const auto& instances = gpu.facts.mig_instances;
    const auto total = view.visible[i].mig ? instances[*view.visible[i].mig].memory_total : gpu.facts.memory_total;
    std::vector<std::string> facts;
    facts.push_back(total ? fmt::format("{} MB total", in_mebibytes(*total)) : "memory unknown");
    if (const auto& used = gpu.reading.memory_used; used && total && total->value > 0 && !view.visible[i].mig)
      facts.push_back(fmt::format("{} MB used ({:.1f}%)", in_mebibytes(*used),
                                  100.0 * static_cast<double>(used->value) / static_cast<double>(total->value)));
    if (gpu.facts.compute_capability)
      facts.push_back(
          fmt::format("Compute {}.{}", gpu.facts.compute_capability->major, gpu.facts.compute_capability->minor));
    text += fmt::format("GPU {}: {} ({})\n", i, gpu.facts.name.value_or("unknown GPU"), join(facts, ", "));
  }
  return text;
}

std::string gpu_names(const host::HostView& view) {
  std::string text;
  for (const gpu::Gpu& gpu : view.snapshot.gpus) {
    text += fmt::format("GPU {}: {} (UUID: {})\n", gpu::number(gpu.facts.index), gpu.facts.name.value_or("unknown GPU"),
                        gpu.facts.uuid ? gpu.facts.uuid->text : "unknown");
    for (std::size_t i = 0; i < gpu.facts.mig_instances.size(); ++i)
      text += fmt::format("  {} Device {}: (UUID: {})\n", gpu.facts.mig_instances[i].name.value_or("MIG"), i,
                          gpu.facts.mig_instances[i].uuid.text);
  }
  return text;
}

std::string link_matrix(const host::HostView& view, bool colour) {
  std::string text = heading(view);
  std::vector<std::vector<Cell>> rows(1);
  rows[0].push_back({""});
  for (const gpu::Gpu& gpu : view.snapshot.gpus)
    rows[0].push_back({fmt::format("GPU{}", gpu::number(gpu.facts.index)), Colour::bold});
  rows[0].push_back({"CPU affinity", Colour::bold});
  rows[0].push_back({"NUMA node", Colour::bold});
  for (const gpu::Gpu& a : view.snapshot.gpus) {
    rows.push_back({{fmt::format("GPU{}", gpu::number(a.facts.index)), Colour::bold}});
    for (const gpu::Gpu& b : view.snapshot.gpus) {
      const auto link = gpu::find_link(view.snapshot.links, a.facts.index, b.facts.index);
      if (a.facts.index == b.facts.index)
        rows.back().push_back({"X", Colour::dim});
      else
        rows.back().push_back({link ? gpu::to_string(*link) : "?",
                               link && link->kind == gpu::LinkKind::nvlink ? Colour::green : Colour::plain});
    }
    rows.back().push_back({a.facts.cpu_affinity.value_or("?")});
    rows.back().push_back({a.facts.numa_node ? std::to_string(*a.facts.numa_node) : "?"});
  }
  if (view.snapshot.gpus.empty()) return text;
  text += format_table(rows, colour);
  return text +
         "\nX self · NV# that many NVLinks · PIX one PCIe switch · PXB several · PHB the CPU's PCIe bridge\n"
         "NODE across bridges of one NUMA node · SYS across NUMA nodes · ? not known\n";
}

}  // namespace muster::cli

#include "host/described_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/kernel_listing.hpp"

namespace muster::host {
namespace {

bool is_listed(const std::vector<gpu::Gpu>& here, const gpu::Gpu& described) {
  return described.facts.uuid && std::ranges::any_of(here, [&](const gpu::Gpu& gpu) {
           return gpu.facts.uuid && gpu.facts.uuid->text == described.facts.uuid->text;
         });
}

}  // namespace

std::optional<std::filesystem::path> file_of_described_gpus(const HostSources& sources, const HostView& view) {
  if (!sources.inventory_file || view.visible.empty()) return std::nullopt;
  const auto here = gpu::list_from_kernel();
  const bool all_here = here && std::ranges::all_of(view.visible, [&](const gpu::VisibleDevice& device) {
                          return is_listed(*here, view.gpu_of(device));
                        });
  return all_here ? std::nullopt : sources.inventory_file;
}

Error refuse_described_gpus(const std::filesystem::path& file) {
  return {Error::Kind::refused,
          fmt::format("GPUs are asked for, and {}: nothing can compute on them", described_gpus_words(file)),
          "--device cpu computes here; --dry-run plans for them; without MUSTER_GPUS and --gpus-from, the GPUs of this "
          "machine are used"};
}

std::string described_gpus_words(const std::filesystem::path& file) {
  return fmt::format("the GPUs of {} are not in this machine", file.string());
}

}  // namespace muster::host

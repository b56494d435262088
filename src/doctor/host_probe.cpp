#include "doctor/host_probe.hpp"

#include <cstdlib>
#include <thread>

#include "doctor/collective_probe.hpp"
#include "doctor/generation_probe.hpp"
#include "doctor/machine_probe.hpp"
#include "doctor/network_probe.hpp"
#include "doctor/worker_probe.hpp"
#include "sandbox/sandbox.hpp"
#include "system/environment.hpp"

namespace muster::doctor {
namespace {

// The GPUs, their holders, and what the mask shows of them, if it can be read.
host::HostView look(const host::HostSources& sources, HostFacts& facts) {
  host::HostSources unmasked = sources;
  unmasked.mask.reset();  // a mask that cannot be read must not hide the GPUs from the other checks
  host::Host host(unmasked);
  facts.leases = host.leases().check();
  host::HostView view;
  view.mask = sources.mask;
  if (auto seen = host.look()) {
    view.snapshot = std::move(seen->snapshot);
    view.holders = std::move(seen->holders);
    facts.snapshot = view.snapshot;
    facts.holders = view.holders;
  } else {
    facts.snapshot = seen.error();
  }
  if (auto visible = gpu::read_mask(sources.mask, view.snapshot.gpus)) view.visible = std::move(*visible);
  return view;
}

}  // namespace

ProbeSettings settings_from_environment() {
  ProbeSettings settings;
  settings.collectives = true;
  std::error_code removed;
  if (const auto folder = std::filesystem::current_path(removed); !removed) settings.working_folder = folder;
  if (const auto folder = environment_variable("TMPDIR"); folder && !folder->empty())
    settings.temporary_folder = *folder;
  return settings;
}

HostFacts probe_host(const host::HostSources& sources, const ProbeSettings& settings) {
  const ClockProbe clock;
  HostFacts facts;
  facts.instruction_sets = try_instruction_sets(settings.instruction_sets);
  facts.network.host_name = own_host_name();
  {
    const std::jthread resolution([&] { resolve_host_name(facts.network, settings.name_limit); });
    const host::HostView view = look(sources, facts);
    facts.workers = probe_workers(view, sources, settings.worker, settings.worker_limit);
  }
  facts.network.loopback_failure = try_loopback(settings.loopback_limit);
  facts.inventory_file = sources.inventory_file;
  facts.driver = probe_driver(settings.proc, settings.sys, settings.dev);
  facts.mask = sources.mask;
  facts.device_order = environment_variable("CUDA_DEVICE_ORDER");
  facts.lease_folder = sources.lease_folder;
  facts.memory = host::probe_memory(settings.proc, settings.sys, settings.dev);
  facts.folders.push_back(probe_folder("working folder", settings.working_folder));
  facts.folders.push_back(probe_folder("temporary folder", settings.temporary_folder));
  facts.open_files = probe_open_files();
  facts.onednn_maximum = environment_variable("ONEDNN_MAX_CPU_ISA");
  facts.sandbox = sandbox::probe();
  facts.clock = clock.finish(settings.proc);
  if (settings.collectives) {
    facts.collectives = probe_collectives(sources);
    facts.generation = probe_generation(sources);
  }
  return facts;
}

}  // namespace muster::doctor

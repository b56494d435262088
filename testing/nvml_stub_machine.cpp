#include "testing/nvml_stub_machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/text.hpp"
#include "gpu/inventory.hpp"

namespace muster::gpu::nvml {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

bool Machine::fails(std::string_view name, std::string_view value) const {
  return std::ranges::any_of(failures, [&](const auto& one) { return one.first == name && one.second == value; });
}

Return Machine::code_of(std::string_view name) const {
  for (const auto& [key, value] : failures)
    if (key == name) return Return{std::atoi(value.c_str())};
  return Return::success;
}

std::unique_ptr<Machine>& machine() {
  static std::unique_ptr<Machine> only;
  return only;
}

Return start() {
  // Like the driver's own library: a fork of a process that has used it gets no session.
  static const pid_t first_user = ::getpid();
  constexpr Return blocked_by_the_system{17};
  if (::getpid() != first_user) return blocked_by_the_system;
  auto next = std::make_unique<Machine>();
  for (const std::string& one : split(variable("MUSTER_NVML_STUB_FAIL"), ',')) {
    const auto equals = one.find('=');
    next->failures.emplace_back(one.substr(0, equals), equals == std::string::npos ? "" : one.substr(equals + 1));
  }
  while (next->fails("hang", "")) ::pause();  // a driver that does not answer
  if (const Return code = next->code_of("init"); code != Return::success) return code;
  const std::string file = variable("MUSTER_NVML_STUB_INVENTORY");
  if (file.empty()) return Return::driver_not_loaded;
  auto snapshot = open_file_inventory(file)->read(Detail::everything);
  if (!snapshot) {
    std::fprintf(stderr, "nvml stub: %s\n", to_string(snapshot.error()).c_str());
    return Return::unknown;
  }
  next->snapshot = std::move(*snapshot);
  for (const Gpu& gpu : next->snapshot.gpus) {
    next->devices.push_back(std::make_unique<DeviceHandle>(DeviceHandle{&gpu, nullptr, false}));
    for (const MigInstance& instance : gpu.facts.mig_instances)
      next->instances.push_back(std::make_unique<DeviceHandle>(DeviceHandle{&gpu, &instance, false}));
  }
  machine() = std::move(next);
  return Return::success;
}

Return obstacle(Device device, std::string_view fact) {
  if (!machine()) return Return::uninitialized;
  if (device->lost) return Return::gpu_is_lost;
  if (machine()->fails("unsupported", fact)) return Return::not_supported;
  if (machine()->fails("denied", fact)) return Return::no_permission;
  return Return::success;
}

}  // namespace muster::gpu::nvml

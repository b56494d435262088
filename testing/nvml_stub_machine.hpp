// The machine that the NVML stand-in (nvml_stub.cpp) describes, and the failures it was told to show.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/nvml_library.hpp"
#include "gpu/snapshot.hpp"

namespace muster::gpu::nvml {

// What a handle points to: a GPU, or an instance of one.
struct DeviceHandle {
  const Gpu* gpu = nullptr;
  const MigInstance* instance = nullptr;
  bool lost = false;
};

struct Machine {
  Snapshot snapshot;
  std::vector<std::unique_ptr<DeviceHandle>> devices;
  std::vector<std::unique_ptr<DeviceHandle>> instances;
  std::vector<std::pair<std::string, std::string>> failures;  // "init" → "999"

  bool fails(std::string_view name, std::string_view value) const;
  Return code_of(std::string_view name) const;  // success if no code was requested
};

// NVML is a C interface with one state per process: so is its stand-in. Null outside a session.
std::unique_ptr<Machine>& machine();

// Begins a session configured by the environment.
Return start();

// What prevents answering for this fact.
Return obstacle(Device device, std::string_view fact);

template <class Value, class Answer>
Return answer(Device device, std::string_view fact, const std::optional<Value>& value, Answer give) {
  if (const Return code = obstacle(device, fact); code != Return::success) return code;
  if (!value) return Return::not_supported;
  give(*value);
  return Return::success;
}

}  // namespace muster::gpu::nvml

// Where snapshots come from: the driver, a file, or the explanation that there is none.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "gpu/snapshot.hpp"

namespace muster::gpu {

// How much to ask the driver for. Everything costs milliseconds; a waiting loop asks for memory alone.
enum class Detail {
  memory,      // identities, memory and processes
  everything,  // and load, health and links, which the GPU itself has to be asked for
};

class Inventory {
 public:
  virtual ~Inventory() = default;
  // One consistent look at all GPUs. No driver and no devices are snapshots that say so; a driver that answers with an
  // error is an Error with the fix.
  virtual Result<Snapshot> read(Detail detail) = 0;
};

// What the kernel tells beside the driver: parameters for tests.
struct MachinePaths {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
  std::filesystem::path kernel_log = "/dev/kmsg";
};

// The NVIDIA management library, opened at run time; never creates a CUDA context. library overrides where it is found.
std::unique_ptr<Inventory> open_nvml_inventory(std::optional<std::filesystem::path> library = std::nullopt,
                                               MachinePaths paths = {});

// A YAML or JSON file (docs/inventory-file.md); read again each time.
std::unique_ptr<Inventory> open_file_inventory(std::filesystem::path file);

// The snapshot an inventory text describes. source names it in messages.
Result<Snapshot> parse_inventory(std::string_view text, std::string_view source);

}  // namespace muster::gpu

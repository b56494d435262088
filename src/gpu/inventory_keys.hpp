// What can be written in an inventory file: the tables of its keys. docs/inventory-file.md is their reference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/document.hpp"
#include "base/node_reader.hpp"
#include "gpu/snapshot.hpp"

namespace muster::gpu {

// One entry of "gpus" as written, before defaults.
struct GpuEntry {
  Gpu gpu;
  TextPosition position;
  std::optional<int> index;
  std::optional<int> count;
  std::optional<bool> healthy;
  std::optional<std::string> unhealthy_because;
  bool uuid_not_known = false;  // "uuid: null", as opposed to no such key
};

struct LinkEntry {
  Link link;
  TextPosition position;
};

struct InventoryEntries {
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_version;
  DriverState driver = DriverState::ready;
  TextPosition driver_position;
  std::optional<int> count;
  TextPosition count_position;
  std::vector<GpuEntry> gpus;
  std::vector<LinkEntry> links;
};

InventoryEntries read_entries(NodeReader& reader, const Node& root);

}  // namespace muster::gpu

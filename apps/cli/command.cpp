#include "cli/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

namespace muster::cli {

int report(const Error& error) {
  fmt::print(stderr, "muster: {}\n", to_string(error));
  return exit_code(error.kind);
}

void note(const std::string& text) { fmt::print(stderr, "muster: {}\n", text); }

std::shared_ptr<InventoryOption> add_inventory_option(CLI::App& command) {
  auto option = std::make_shared<InventoryOption>();
  command.add_option("--gpus-from", option->file, "read the GPUs from this YAML or JSON file instead of the driver (also MUSTER_GPUS)");
  return option;
}

service::Host open_host(const InventoryOption& option) {
  service::HostSources sources = service::sources_from_environment();
  if (option.file) sources.inventory_file = *option.file;
  return service::Host(std::move(sources));
}

}  // namespace muster::cli

#include "cli/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/clean_text.hpp"
#include "base/duration.hpp"
#include "cli/terminal.hpp"

namespace muster::cli {

int report(const Error& error) {
  tell_user(fmt::format("muster: {}\n", printable_lines(to_string(error))));
  return exit_code(error.kind);
}

void note(const std::string& text) { tell_user(fmt::format("muster: {}\n", printable_lines(text))); }

void show(std::string_view text) {
  fmt::print("{}", output_has_colour() ? printable_lines_with_colours(text) : printable_lines(text));
}

void show_json(std::string_view json) { fmt::print("{}", escaped_lines(json)); }

std::shared_ptr<InventoryOption> add_inventory_option(CLI::App& command) {
  auto option = std::make_shared<InventoryOption>();
  command.add_option("--gpus-from", option->file,
                     "read the GPUs from this YAML or JSON file instead of the driver (also MUSTER_GPUS)")
      ->group("Devices");
  return option;
}

host::Host open_host(const InventoryOption& option) {
  host::HostSources sources = host::sources_from_environment();
  if (option.file) sources.inventory_file = *option.file;
  return host::Host(std::move(sources));
}

Result<std::optional<std::chrono::milliseconds>> SpanOption::span_or(std::chrono::milliseconds fallback) const {
  if (given.empty()) return std::optional<std::chrono::milliseconds>{};
  if (given.front().empty()) return std::optional(fallback);
  auto span = parse_duration(given.front());
  if (!span) return Error{span.error().kind, name + ": " + span.error().what, span.error().remedy};
  return std::optional(*span);
}

std::shared_ptr<SpanOption> add_span_option(CLI::App& command, const std::string& name, const std::string& help) {
  auto option = std::make_shared<SpanOption>();
  option->name = name;
  command
      .add_option_function<std::vector<std::string>>(
          name,
          [option](const std::vector<std::string>& values) {
            option->given = values.empty() ? std::vector<std::string>{""} : values;
          },
          help)
      ->expected(0, 1)
      ->type_name("[SPAN]");
  return option;
}

}  // namespace muster::cli

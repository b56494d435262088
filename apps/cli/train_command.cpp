// muster train: its configuration is read and checked as it will be; the training itself is not in this version.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/configuration_options.hpp"

namespace muster::cli {
namespace {

int train(const ConfigurationOptions& options) {
  const spec::Schema schema;
  const auto resolved = resolve_configuration(schema, options);
  if (!resolved) return report(resolved.error());
  if (options.print) {
    print_resolved(schema, *resolved, options.json);
    return 0;
  }
  for (const Problem& problem : missing_capabilities(schema, *resolved))
    note(fmt::format("{}: {}", problem.where, problem.what));
  return report({Error::Kind::bad_input, "this version of muster cannot train yet",
                 "the configuration is valid; muster train --print-config shows it"});
}

}  // namespace

void add_train_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("train", "train a model (not in this version: checks the configuration only)");
  auto options = add_configuration_options(*command);
  command->add_flag("--json", options->json, "with --print-config: as JSON");
  command->callback([&action, options] { action.run = [options](const Tail&) { return train(*options); }; });
}

}  // namespace muster::cli

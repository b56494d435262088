// muster completion and muster man: what shells and man know about muster's commands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "system/files.hpp"
#include "base/text.hpp"
#include "cli/command_description.hpp"
#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/man_page.hpp"

namespace muster::cli {
namespace {

struct ManOptions {
  std::vector<std::string> words;
  std::string folder;
};

Result<void> write_pages(const CommandDescription& command, const CommandDescription& program,
                         const std::filesystem::path& folder) {
  if (auto written = write_file_atomically(folder / man_page_name(command), man_page(command, program)); !written)
    return written.error();
  for (const CommandDescription& below : command.commands)
    if (auto written = write_pages(below, program, folder); !written) return written.error();
  return {};
}

int print_page(const CommandDescription& program, const std::vector<std::string>& words) {
  const CommandDescription* command = &program;
  for (const std::string& word : words) {
    const CommandDescription* below = command->find_command(word);
    if (below == nullptr)
      return report({Error::Kind::bad_input, fmt::format("{} has no command \"{}\"", command->spoken, word),
                     fmt::format("{} --help lists the commands", command->spoken)});
    command = below;
  }
  fmt::print("{}", man_page(*command, program));
  return 0;
}

int print_man(const ManOptions& options) {
  Action unused;
  const CommandDescription program = describe(*make_program(unused, nullptr));
  if (options.folder.empty()) return print_page(program, options.words);
  std::error_code failed;
  std::filesystem::create_directories(options.folder, failed);
  const auto written = write_pages(program, program, options.folder);
  return written ? 0 : report(written.error());
}

}  // namespace

void add_completion_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("completion", "print the script that makes the Tab key complete muster's words");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "bash: add  source <(muster completion bash)  to ~/.bashrc\n"
      "zsh:  add  source <(muster completion zsh)  to ~/.zshrc, after compinit\n"
      "fish: muster completion fish > ~/.config/fish/completions/muster.fish");
  command->callback([&action, shell] {
    action.run = [shell](const Tail&) {
      fmt::print("{}", completion_script(*shell));
      return 0;
    };
  });
}

void add_man_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("man", "print a command's man page, or write all pages to a folder");
  auto options = std::make_shared<ManOptions>();
  command->add_option("COMMAND", options->words, "as in: gpus pick; none: muster itself");
  command->add_option("--folder", options->folder, "write every page there, as muster-train.1");
  command->callback([&action, options] { action.run = [options](const Tail&) { return print_man(*options); }; });
}

}  // namespace muster::cli

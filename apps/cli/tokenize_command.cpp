// muster tokenize: ids and pieces of prompts as a model sees them, and back.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "system/allotted_cores.hpp"
#include "base/count_of.hpp"
#include "system/files.hpp"
#include "system/staged_file.hpp"
#include "cli/command.hpp"
#include "cli/progress_line.hpp"
#include "service/tokenize.hpp"

namespace muster::cli {
namespace {

constexpr auto quiet_time = std::chrono::seconds(2);

struct TokenizeCommand {
  service::TokenizeRequest request;
  std::optional<std::string> output;
  int threads = 0;  // 0: the cores of this process
};

Result<void> print(std::string_view lines) {
  if (std::fwrite(lines.data(), 1, lines.size(), stdout) == lines.size() && std::fflush(stdout) == 0) return {};
  return Error{Error::Kind::failed, fmt::format("cannot write to standard output: {}", system_reason()), ""};
}

int run_tokenize(const TokenizeCommand& given) {
  service::TokenizeRequest request = given.request;
  request.threads = given.threads > 0 ? given.threads : allotted_cores();
  std::optional<StagedFile> file;
  if (given.output && *given.output != "-") {
    auto staged = StagedFile::create(*given.output);
    if (!staged) return report(staged.error());
    file.emplace(std::move(*staged));
  }
  request.write = [&](std::string_view lines) { return file ? file->write(lines) : print(lines); };
  const auto summary = [&] {
    ProgressLine line("tokenizing");
    const auto begin = std::chrono::steady_clock::now();
    request.progress = [&](ByteCount done, ByteCount total) {
      if (std::chrono::steady_clock::now() - begin > quiet_time) line.show(done, total);
    };
    return service::tokenize(request, spec::model_search_from_environment());
  }();
  if (!summary) return report(summary.error());
  if (!file) return 0;
  if (auto committed = file->commit(); !committed) return report(committed.error());
  fmt::print("{}: {}, {}\n", *given.output, count_of(summary->rows, "row"), count_of(summary->tokens, "token"));
  return 0;
}

}  // namespace

void add_tokenize_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("tokenize", "show prompts as a model sees them: token ids, pieces, the rendered chat");
  auto given = std::make_shared<TokenizeCommand>();
  command
      ->add_option("-m,--model", given->request.model,
                   "a folder, tokenizer.json or GGUF file, or a model's name (muster model list)")
      ->required();
  command
      ->add_option("-p,--prompts", given->request.prompts,
                   "a text file with one prompt a line, JSON lines with \"prompt\" or \"messages\", or - for standard "
                   "input")
      ->required();
  command->add_option("-o,--output", given->output, "JSON lines to this file instead of standard output");
  command->add_flag("--decode", given->request.decode, "the way back: rows with \"tokens\" become text");
  command->add_flag("--skip-special-tokens", given->request.skip_special_tokens, "leave special tokens out of the text")
      ->needs("--decode");
  command
      ->add_flag("--add-generation-prompt", given->request.add_generation_prompt,
                 "end messages with the words an answer begins with, where their row does not say")
      ->excludes("--decode");
  command->add_option("--threads", given->threads, "default: the cores of this process")->check(CLI::Range(1, 1024));
  command->callback([&action, given] { action.run = [given](const Tail&) { return run_tokenize(*given); }; });
}

}  // namespace muster::cli

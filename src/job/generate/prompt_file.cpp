#include "job/generate/prompt_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/text.hpp"
#include "system/files.hpp"

namespace muster::job {
namespace {

constexpr std::size_t most_problems = 20;  // that are shown
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

}  // namespace

PromptFile::PromptFile(FileDescriptor file, std::string name, PromptUse use, Form form,
                       std::optional<std::int64_t> total, std::size_t longest_line,
                       std::vector<std::string> adapters)
    : file_(std::move(file)),
      lines_(file_ ? file_.number() : STDIN_FILENO, name, longest_line),
      name_(std::move(name)),
      use_(use),
      form_(form),
      total_(total),
      adapters_(std::move(adapters)) {}

Result<PromptFile> PromptFile::open(const std::string& path, PromptUse use, std::size_t longest_line,
                                    std::vector<std::string> adapters) {
  if (path == "-") return PromptFile({}, "standard input", use, Form::by_first_line, std::nullopt, longest_line,
                                     std::move(adapters));
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  struct stat facts = {};
  if (!file || ::fstat(file.number(), &facts) != 0)
    return Error{
        Error::Kind::bad_input, fmt::format("cannot read {}: {}", path, system_reason()),
        "name a file with one prompt a line, or - for standard input; muster generate takes a prompt itself without -p"};
  if (S_ISDIR(facts.st_mode))
    return Error{Error::Kind::bad_input, fmt::format("{} is a folder", path), "name a file with one prompt a line"};
  const std::string lower = to_lower(path);
  const bool json = lower.ends_with(".jsonl") || lower.ends_with(".json");
  const Form form = json ? Form::json : lower.ends_with(".txt") ? Form::text : Form::by_first_line;
  const auto total = S_ISREG(facts.st_mode) ? std::optional<std::int64_t>(facts.st_size) : std::nullopt;
  return PromptFile(std::move(file), path, use, form, total, longest_line, std::move(adapters));
}

Result<PromptFile> PromptFile::of_texts(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) {
    if (!is_utf8(text))
      return Error{Error::Kind::bad_input, "a prompt on the command line is not valid UTF-8", "give it in a file: -p FILE"};
    lines += nlohmann::ordered_json{{"prompt", text}}.dump() + "\n";
  }
  FileDescriptor file(::memfd_create("prompts", MFD_CLOEXEC));
  const auto size = static_cast<ssize_t>(lines.size());
  if (!file || ::pwrite(file.number(), lines.data(), lines.size(), 0) != size)
    return Error{Error::Kind::failed, fmt::format("cannot keep the prompts in memory: {}", system_reason()), "-p FILE"};
  return PromptFile(std::move(file), "command line", PromptUse::prompts, Form::json, size, longest_usual_line, {});
}

bool PromptFile::is_same_as(const std::string& path) const {
  struct stat own = {}, other = {};
  return ::fstat(descriptor(), &own) == 0 && ::stat(path.c_str(), &other) == 0 && S_ISREG(own.st_mode) &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

Result<PromptRow> PromptFile::row_of(std::string line) const {
  const std::string source = fmt::format("{}:{}", name_, lines_.count());
  if (!is_utf8(line)) return Error{Error::Kind::bad_input, source + ": not valid UTF-8", "save the file as UTF-8"};
  if (form_ == Form::json) {
    auto row = parse_prompt_row(line, source, use_, adapters_);
    if (row && row->adapter < 0 && needs_adapter_)
      return Error{Error::Kind::bad_input,
                   fmt::format("{}: \"adapter\" is \"\", and whole modules of the model are the adapter's", source),
                   "answer it by itself, without --adapter"};
    return row;
  }
  if (use_ != PromptUse::prompts)
    return Error{Error::Kind::bad_input, source + ": a line of text", "give JSON lines: one object a line"};
  PromptRow row;
  row.prompt = std::move(line);
  return row;
}

Result<NextPrompt> PromptFile::try_next() {
  while (true) {
    auto next = lines_.next();
    if (!next) return next.error();
    if (std::holds_alternative<NoLineYet>(*next)) return NextPrompt(NoPromptYet{});
    if (std::holds_alternative<NoMoreLines>(*next)) return NextPrompt(NoMorePrompts{});
    std::string& line = std::get<std::string>(*next);
    if (lines_.count() == 1 && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
    if (trim(line).empty()) continue;
    if (form_ == Form::by_first_line) form_ = trim(line).starts_with('{') ? Form::json : Form::text;
    const std::int64_t index = index_++;
    auto row = row_of(std::move(line));
    if (!row) return row.error();
    row->index = index;
    row->line = static_cast<std::int64_t>(lines_.count());
    return NextPrompt(std::move(*row));
  }
}

Result<std::optional<PromptRow>> PromptFile::next() {
  while (true) {
    auto found = try_next();
    if (!found) return found.error();
    if (auto* row = std::get_if<PromptRow>(&*found)) return std::optional(std::move(*row));
    if (std::holds_alternative<NoMorePrompts>(*found)) return std::optional<PromptRow>();
    pollfd waiting{descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
  }
}

Result<std::int64_t> check_prompts(PromptFile file) {
  std::vector<Problem> problems;
  std::int64_t count = 0;
  while (problems.size() < most_problems) {
    const auto row = file.next();
    if (!row) {
      if (row.error().kind != Error::Kind::bad_input) return row.error();
      problems.push_back({"", row.error().what, row.error().remedy});
    } else if (*row) {
      ++count;
    } else {
      break;
    }
  }
  if (!problems.empty()) return to_error(problems);
  if (count == 0)
    return Error{Error::Kind::bad_input, fmt::format("{} has no prompts", file.name()), "write one prompt a line"};
  return count;
}

}  // namespace muster::job

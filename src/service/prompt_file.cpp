#include "service/prompt_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace muster::service {
namespace {

constexpr std::size_t block_size = 1 << 20;
constexpr std::size_t longest_line = std::size_t{1} << 30;

enum class Form { text, json, by_first_line };

Form form_of(const std::string& path) {
  const std::string name = to_lower(path);
  if (name.ends_with(".jsonl") || name.ends_with(".json")) return Form::json;
  return name.ends_with(".txt") ? Form::text : Form::by_first_line;
}

}  // namespace

struct PromptFile::State {
  std::string name;
  PromptUse use;
  Form form;
  FileDescriptor file;  // none: standard input
  std::int64_t total = 0, read = 0;
  std::string held;  // read and not yet given out, from `begin`
  std::size_t begin = 0;
  bool ended = false;
  std::int64_t line = 0, index = 0;

  int number() const { return file ? file.number() : STDIN_FILENO; }

  Error failure(std::string what, std::string remedy) const {
    return {Error::Kind::bad_input, fmt::format("{}: {}", name, what), std::move(remedy)};
  }

  Result<void> read_more() {
    held.erase(0, begin);
    begin = 0;
    const std::size_t before = held.size();
    if (before > longest_line) return failure(fmt::format("line {} is too long", line + 1), "one prompt a line");
    held.resize(before + block_size);
    ssize_t got = -1;
    do got = ::read(number(), held.data() + before, block_size);
    while (got < 0 && errno == EINTR);
    held.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) return Error{Error::Kind::failed, fmt::format("cannot read {}: {}", name, system_reason()), ""};
    read += got;
    ended = got == 0;
    return {};
  }

  // The next line without its end; nothing at the end of the file.
  Result<std::optional<std::string>> next_line() {
    std::size_t searched = begin;
    while (true) {
      const std::size_t end = held.find('\n', searched);
      if (end != std::string::npos || (ended && begin < held.size())) {
        std::string text = held.substr(begin, end == std::string::npos ? end : end - begin);
        begin = end == std::string::npos ? held.size() : end + 1;
        if (text.ends_with('\r')) text.pop_back();
        if (++line == 1 && text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
        return std::optional(std::move(text));
      }
      if (ended) return std::optional<std::string>{};
      const std::size_t unread = held.size() - begin;
      if (auto more = read_more(); !more) return more.error();
      searched = unread;
    }
  }

  Result<PromptRow> row_of(const std::string& text) {
    const std::string source = fmt::format("{}:{}", name, line);
    if (!is_utf8(text)) return Error{Error::Kind::bad_input, source + ": no valid UTF-8", "save the file as UTF-8"};
    if (form == Form::json) return parse_prompt_row(text, source, use);
    if (use != PromptUse::prompts)
      return Error{Error::Kind::bad_input, source + ": a line of text", "give JSON lines: one object a line"};
    PromptRow row;
    row.prompt = text;
    return row;
  }
};

PromptFile::PromptFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
PromptFile::PromptFile(PromptFile&&) noexcept = default;
PromptFile& PromptFile::operator=(PromptFile&&) noexcept = default;
PromptFile::~PromptFile() = default;

Result<PromptFile> PromptFile::open(const std::string& path, PromptUse use) {
  auto state = std::make_unique<State>();
  state->name = path == "-" ? "standard input" : path;
  state->use = use;
  state->form = form_of(path);
  if (path != "-") {
    state->file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat facts {};
    if (!state->file || ::fstat(state->file.number(), &facts) != 0)
      return Error{Error::Kind::bad_input, fmt::format("cannot read {}: {}", path, system_reason()),
                   "check the path; - is standard input"};
    if (S_ISDIR(facts.st_mode))
      return Error{Error::Kind::bad_input, fmt::format("{} is a folder", path), "name a file of prompts"};
    if (S_ISREG(facts.st_mode)) state->total = facts.st_size;
  }
  return PromptFile(std::move(state));
}

Result<std::optional<PromptRow>> PromptFile::next() {
  while (true) {
    auto text = state_->next_line();
    if (!text) return text.error();
    if (!*text) return std::optional<PromptRow>{};
    if (trim(**text).empty()) continue;
    if (state_->form == Form::by_first_line) state_->form = trim(**text).starts_with('{') ? Form::json : Form::text;
    const std::int64_t index = state_->index++;
    auto row = state_->row_of(**text);
    if (!row) return row.error();
    row->index = index;
    row->line = state_->line;
    return std::optional(std::move(*row));
  }
}

std::int64_t PromptFile::bytes_read() const { return state_->read; }
std::int64_t PromptFile::bytes_total() const { return state_->total; }

}  // namespace muster::service

#include "service/prompt_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "spec/json_text.hpp"

namespace muster::service {
namespace {

// Twice escaped on its way to a rank, a line still fits the channel.
constexpr std::size_t longest_line = std::size_t{8} << 20;
constexpr std::size_t most_problems = 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

Error wrong_row(const std::string& where, std::string_view what, std::string remedy) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", where, what), std::move(remedy)};
}

// One row's keys, taken out one after another. The first that is wrong stays as the error.
class RowReader {
 public:
  RowReader(const OrderedJson& object, const std::string& where) : object_(object), where_(where) {}

  bool has(const char* key) const { return find(key) != nullptr; }

  std::optional<std::string> text(const char* key) {
    const OrderedJson* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) return wanted(key, *value, "a text"), std::nullopt;
    return value->get<std::string>();
  }
  std::optional<bool> truth(const char* key) {
    const OrderedJson* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) return wanted(key, *value, "true or false"), std::nullopt;
    return value->get<bool>();
  }
  std::optional<std::int64_t> count(const char* key) {
    const OrderedJson* value = find(key);
    if (value == nullptr) return std::nullopt;
    const bool small = value->is_number_unsigned() && value->get<std::uint64_t>() <= 1'000'000'000;
    if (!small || value->get<std::uint64_t>() == 0)
      return wanted(key, *value, "a whole number from 1 on"), std::nullopt;
    return value->get<std::int64_t>();
  }
  OrderedJson identity(const char* key) {
    const OrderedJson* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string() && !value->is_number()) return wanted(key, *value, "a text or a number"), OrderedJson();
    return *value;
  }
  OrderedJson list(const char* key) {
    const OrderedJson* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_array()) return wanted(key, *value, "a list"), OrderedJson();
    return *value;
  }
  OrderedJson object(const char* key) {
    const OrderedJson* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_object()) return wanted(key, *value, "an object"), OrderedJson();
    return *value;
  }
  OrderedJson messages(const char* key);
  std::vector<std::int32_t> tokens(const char* key);

  void refuse(std::string_view what, std::string remedy) {
    if (!error_) error_ = wrong_row(where_, what, std::move(remedy));
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  // Null counts as absent.
  const OrderedJson* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void wanted(const char* key, const OrderedJson& seen, std::string_view accepted) {
    refuse(fmt::format("\"{}\" is {}", key, spec::shown(nlohmann::json(seen))), fmt::format("give {}", accepted));
  }

  const OrderedJson& object_;
  const std::string& where_;
  std::optional<Error> error_;
};

OrderedJson RowReader::messages(const char* key) {
  OrderedJson found = list(key);
  constexpr std::string_view form = R"(write {"messages": [{"role": "user", "content": "…"}]})";
  if (found.is_array() && found.empty()) refuse("\"messages\" is an empty list", std::string(form));
  for (const OrderedJson& message : found)
    if (!message.is_object() || !message.contains("role") || !message.at("role").is_string())
      refuse("a message has no \"role\"", std::string(form));
  return found;
}

std::vector<std::int32_t> RowReader::tokens(const char* key) {
  std::vector<std::int32_t> numbers;
  for (const OrderedJson& item : list(key)) {
    constexpr auto largest = std::numeric_limits<std::int32_t>::max();
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > static_cast<std::uint64_t>(largest)) {
      wanted(key, item, "a list of token ids");
      break;
    }
    numbers.push_back(item.get<std::int32_t>());
  }
  return numbers;
}

void check_use(RowReader& reader, const PromptRow& row, PromptUse use) {
  if (use == PromptUse::decode) {
    if (!reader.has("tokens")) reader.refuse("has no \"tokens\"", R"(write {"tokens": [1, 2, 3]})");
    return;
  }
  if (!reader.has("prompt") && !reader.has("messages"))
    reader.refuse("has neither \"prompt\" nor \"messages\"", R"(write {"prompt": "…"})");
  if (reader.has("prompt") && reader.has("messages"))
    reader.refuse("has both \"prompt\" and \"messages\"", "keep one of the two");
  if (use == PromptUse::score && !row.completion)
    reader.refuse("has no \"completion\" to score", R"(write {"prompt": "…", "completion": "…"})");
}

}  // namespace

Result<PromptRow> parse_prompt_row(std::string_view text, PromptUse use, const std::string& where) {
  // The strict reading first; then the one that keeps the order of keys.
  if (const auto strict = spec::parse_json_object(text, where); !strict)
    return Error{strict.error().kind, strict.error().what,
                 R"(one object a line: {"prompt": "…"}; a text file has a name that ends in .txt)"};
  const auto object = OrderedJson::parse(text, nullptr, false);
  RowReader reader(object, where);
  PromptRow row;
  row.id = reader.identity("id");
  row.prompt = reader.text("prompt");
  row.messages = reader.messages("messages");
  row.tools = reader.list("tools");
  row.documents = reader.list("documents");
  row.continue_final_message = reader.truth("continue_final_message").value_or(false);
  row.template_variables = reader.object("template_variables");
  row.add_generation_prompt = reader.truth("add_generation_prompt");
  row.max_new_tokens = reader.count("max_new_tokens");
  row.completion = reader.text("completion");
  if (use == PromptUse::decode) row.tokens = reader.tokens("tokens");
  check_use(reader, row, use);
  if (reader.error()) return *reader.error();
  return row;
}

PromptFile::PromptFile(FileDescriptor file, int descriptor, std::string name, PromptUse use, Format format,
                       bool regular)
    : file_(std::move(file)),
      lines_(descriptor, name, longest_line),
      name_(std::move(name)),
      use_(use),
      format_(format),
      regular_(regular) {}

Result<PromptFile> PromptFile::open(const std::string& path, PromptUse use) {
  if (path == "-") return PromptFile({}, STDIN_FILENO, "standard input", use, Format::unknown, false);
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) {
    const bool missing = errno == ENOENT || errno == ENAMETOOLONG;
    return Error{Error::Kind::bad_input, fmt::format("cannot read {}: {}", path, system_reason()),
                 missing ? "name a file with one prompt a line; a prompt itself comes by standard input: echo '…' | "
                           "muster … -p -"
                         : ""};
  }
  struct stat facts = {};
  if (::fstat(file.number(), &facts) == 0 && S_ISDIR(facts.st_mode))
    return Error{Error::Kind::bad_input, fmt::format("{} is a folder", path), "name a file with one prompt a line"};
  const std::string extension = to_lower(std::filesystem::path(path).extension().string());
  const bool json = extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
  const Format format = json ? Format::json : extension == ".txt" ? Format::text : Format::unknown;
  const int descriptor = file.number();
  return PromptFile(std::move(file), descriptor, path, use, format, S_ISREG(facts.st_mode));
}

std::pair<std::int64_t, std::int64_t> PromptFile::bytes_taken() const {
  struct stat facts = {};
  const off_t place = ::lseek(descriptor(), 0, SEEK_CUR);
  if (!regular_ || place < 0 || ::fstat(descriptor(), &facts) != 0) return {0, 0};
  return {place, facts.st_size};
}

bool PromptFile::is_same_as(const std::string& path) const {
  struct stat own = {}, other = {};
  return ::fstat(descriptor(), &own) == 0 && ::stat(path.c_str(), &other) == 0 && S_ISREG(own.st_mode) &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

Result<PromptRow> PromptFile::read_row(std::string line) {
  const std::string where = fmt::format("{}:{}", name_, lines_.count());
  if (!is_utf8(line)) return wrong_row(where, "is no UTF-8", "convert the file: iconv -f latin1 -t utf-8");
  if (format_ == Format::unknown) format_ = trim(line).starts_with('{') ? Format::json : Format::text;
  PromptRow row;
  if (format_ == Format::json) {
    auto parsed = parse_prompt_row(line, use_, where);
    if (!parsed) return parsed.error();
    row = std::move(*parsed);
  } else if (use_ == PromptUse::score || use_ == PromptUse::decode) {
    return wrong_row(where, "is text",
                     use_ == PromptUse::score ? R"(scoring needs JSON lines: {"prompt": "…", "completion": "…"})"
                                              : R"(decoding needs JSON lines: {"tokens": [1, 2, 3]})");
  } else {
    row.prompt = std::move(line);
  }
  row.line = static_cast<std::int64_t>(lines_.count());
  return row;
}

Result<NextPrompt> PromptFile::next() {
  while (true) {
    auto next = lines_.next();
    if (!next) return next.error();
    if (std::holds_alternative<NoLineYet>(*next)) return NextPrompt(NoPromptYet{});
    if (std::holds_alternative<NoMoreLines>(*next)) return NextPrompt(NoMorePrompts{});
    std::string& line = std::get<std::string>(*next);
    if (lines_.count() == 1 && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
    if (trim(line).empty()) continue;
    auto row = read_row(std::move(line));
    if (!row) return row.error();
    row->index = index_++;
    return NextPrompt(std::move(*row));
  }
}

Result<std::optional<PromptRow>> PromptFile::wait_for_next() {
  while (true) {
    auto found = next();
    if (!found) return found.error();
    if (auto* row = std::get_if<PromptRow>(&*found)) return std::optional(std::move(*row));
    if (std::holds_alternative<NoMorePrompts>(*found)) return std::optional<PromptRow>();
    pollfd waiting{descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
  }
}

Result<std::int64_t> check_prompts(const std::string& path, PromptUse use) {
  auto file = PromptFile::open(path, use);
  if (!file) return file.error();
  std::vector<Problem> problems;
  std::int64_t count = 0;
  while (problems.size() < most_problems) {
    const auto row = file->wait_for_next();
    if (!row) {
      problems.push_back({"", row.error().what, row.error().remedy});
      if (row.error().kind == Error::Kind::failed) return row.error();
      continue;
    }
    if (!*row) break;
    ++count;
  }
  if (!problems.empty()) return to_error(problems);
  if (count == 0)
    return Error{Error::Kind::bad_input, fmt::format("{} has no prompts", file->name()), "write one prompt a line"};
  return count;
}

}  // namespace muster::service

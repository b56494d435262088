#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "base/text.hpp"
#include "launch/failure.hpp"

namespace muster::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_error_file = std::size_t{16} << 20;
constexpr std::size_t longest_message = 64 * 1024;
constexpr std::size_t longest_traceback = 256 * 1024;

// The first bytes of a file, no more than one file may have and one. Nothing when there is no such file, or it is
// something else: a pipe would never end.
std::optional<std::string> read_regular_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string text;
  char block[65536];
  while (text.size() <= longest_error_file) {
    const ssize_t got = ::read(file.number(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(block, static_cast<std::size_t>(got));
  }
  return text;
}

// What is nested beyond reason is left out: it would be gone through by recursion.
Json parse(std::string_view text) {
  constexpr int deepest = 100;
  return Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth <= deepest; }, false);
}

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::string> text_at(const Json& object, const char* key) {
  const Json* found = find(object, key);
  return found != nullptr && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

// Seconds since 1970, as a number or as text.
std::optional<std::int64_t> seconds_at(const Json& object, const char* key) {
  const Json* found = find(object, key);
  if (found == nullptr) return std::nullopt;
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX) return std::nullopt;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (found->is_string()) return parse_number<std::int64_t>(found->get_ref<const std::string&>());
  return std::nullopt;
}

std::string beginning(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  text.resize(bytes);
  return text + "…";
}

std::string ending(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  return "…" + text.substr(text.size() - bytes);
}

// Fills in what the object says; false when it is not what torch writes.
bool take_message(const Json& object, ErrorFile& file) {
  const Json* message = find(object, "message");
  if (message == nullptr) return false;
  if (message->is_string()) {
    file.message = beginning(message->get<std::string>(), longest_message);
    file.timestamp = seconds_at(object, "timestamp");
    return true;
  }
  if (!message->is_object()) return false;
  file.message = beginning(text_at(*message, "message").value_or("<N/A>"), longest_message);
  if (const Json* extra = find(*message, "extraInfo")) {
    if (auto traceback = text_at(*extra, "py_callstack"))
      file.traceback = ending(std::move(*traceback), longest_traceback);
    file.timestamp = seconds_at(*extra, "timestamp");
  }
  return true;
}

// As torch writes its own: ASCII only.
std::string dump_ascii(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

Json with_exit_code(const ErrorFile& cause, int exit_code) {
  Json json = parse(cause.json);
  if (!json.is_object() || !json.contains("message")) {
    json = Json{{"message", cause.message}};
    if (cause.timestamp) json["timestamp"] = *cause.timestamp;
  }
  if (exit_code != 0 && json["message"].is_object()) json["message"]["errorCode"] = exit_code;
  return json;
}

// Into what is there already, for a target that must not be replaced: /dev/null, /dev/stderr, a pipe.
Result<void> write_into(const std::filesystem::path& target, std::string_view text) {
  const FileDescriptor file(::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file && ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return {};
  return Error{Error::Kind::failed, fmt::format("cannot write {}: {}", target.string(), system_reason()), ""};
}

}  // namespace

ErrorFile parse_error_file(std::filesystem::path path, std::string text) {
  ErrorFile file;
  file.path = std::move(path);
  file.json = std::move(text);
  if (file.json.size() > longest_error_file) {
    file.json.clear();
    file.message = fmt::format("the error file {} is larger than {} MiB", file.path.string(), longest_error_file >> 20);
  } else if (!take_message(parse(file.json), file)) {
    file.message = beginning(std::string(trim(file.json)), longest_message);
  }
  return file;
}

std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
  auto text = read_regular_file(path);
  if (!text || trim(*text).empty()) return std::nullopt;
  return parse_error_file(path, std::move(*text));
}

Result<void> write_parent_error_file(const std::filesystem::path& target, const ErrorFile& cause, int exit_code) {
  const std::string text = dump_ascii(with_exit_code(cause, exit_code));
  struct stat status {};
  if (::stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return write_into(target, text);
  return write_file_atomically(target, text);
}

}  // namespace muster::launch

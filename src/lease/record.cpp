#include "lease/record.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "system/process.hpp"
#include "base/text.hpp"
#include "json/member_reader.hpp"
#include "lease/printable_text.hpp"
#include "lease/public_name.hpp"

namespace muster::lease {
namespace {

using Json = nlohmann::json;

constexpr std::size_t record_bytes = 4096;
constexpr std::size_t command_characters = 512;
constexpr std::size_t user_characters = 64;

std::string new_id() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
    std::random_device chance;
    number = (std::uint64_t{chance()} << 32) | chance();
  }
  return fmt::format("{:016x}", number);
}

Json parse_object(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

std::optional<std::string> find_printable(const Json& json, const char* key, std::size_t most_characters) {
  const auto text = find_text(json, key);
  return text ? std::optional(printable(*text, most_characters)) : std::nullopt;
}

Json to_json(const Record& record) {
  const Holder& holder = record.holder;
  Json json{{"id", record.id}};
  if (holder.pid) json["pid"] = *holder.pid;
  if (holder.user) json["user"] = printable(*holder.user, user_characters);
  if (holder.command) json["command"] = printable(*holder.command, command_characters);
  if (holder.since) json["since"] = *holder.since;
  if (holder.memory_before) json["memory_before"] = holder.memory_before->value;
  return json;
}

std::optional<std::string> read_start(const FileDescriptor& file) {
  std::array<char, record_bytes> block;
  while (true) {
    const ssize_t got = ::pread(file.number(), block.data(), block.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    return std::string(trim(std::string_view(block.data(), static_cast<std::size_t>(got))));
  }
}

}  // namespace

Record describe_this_process(const Purpose& purpose) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Record record;
  record.id = new_id();
  record.holder.pid = ::getpid();
  record.holder.user = user_name(::geteuid());
  const std::string name = public_name(purpose.command);
  record.holder.command =
      printable(purpose.label.empty() ? name : purpose.label + ": " + name, command_characters);
  record.holder.since = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return record;
}

std::string to_line(const Record& record) { return to_json(record).dump(); }

std::optional<Record> parse_record(std::string_view text) {
  const Json json = parse_object(text);
  const auto id = find_printable(json, "id", user_characters);
  if (!id) return std::nullopt;
  Record record;
  record.id = *id;
  if (const auto pid = find_whole(json, "pid"); pid && *pid > 0 && *pid <= INT32_MAX)
    record.holder.pid = static_cast<pid_t>(*pid);
  record.holder.user = find_printable(json, "user", user_characters);
  record.holder.command = find_printable(json, "command", command_characters);
  record.holder.since = find_whole(json, "since");
  if (const auto bytes = find_whole(json, "memory_before"); bytes && *bytes >= 0)
    record.holder.memory_before = ByteCount{*bytes};
  return record;
}

std::optional<Record> read_record(const FileDescriptor& file) {
  // A reader may meet a writer half way; the second look sees the whole.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto text = read_start(file);
    if (!text || text->empty()) return std::nullopt;
    if (auto record = parse_record(*text)) return record;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::nullopt;
}

void write_record(const FileDescriptor& file, std::string_view line) {
  std::string block(line.substr(0, record_bytes - 1));
  block.resize(record_bytes - 1, ' ');
  block += '\n';
  ssize_t put = 0;
  do {
    put = ::pwrite(file.number(), block.data(), block.size(), 0);
  } while (put < 0 && errno == EINTR);
  if (put == static_cast<ssize_t>(block.size())) return;
  // Nothing more can be done when this fails too: then the file is open for reading only.
  [[maybe_unused]] const int ignored = ::ftruncate(file.number(), 0);
}

Holder holder_of_locked(const FileDescriptor& file, const KernelLocks& locks) {
  struct stat status {};
  const auto taker = ::fstat(file.number(), &status) == 0 ? locks.taker(status) : std::nullopt;
  if (auto record = read_record(file)) {
    Holder holder = std::move(record->holder);
    if (!taker) return holder;
    if (holder.pid && is_same_process(*taker, *holder.pid)) {
      const Holder seen = holder_from_process(*taker);
      holder.pid = taker;
      if (seen.user) holder.user = seen.user;
      if (seen.command && holder.command == public_name(*seen.command)) holder.command = seen.command;
      return holder;
    }
  }
  return taker ? holder_from_process(*taker) : Holder{};
}

Holder holder_from_process(pid_t pid) {
  Holder holder;
  holder.pid = pid;
  if (const auto facts = read_process(pid)) {
    holder.user = facts->user;
    if (facts->command && !facts->command->empty()) holder.command = printable(*facts->command, command_characters);
  }
  return holder;
}

std::string to_ticket_text(const Record& record, const std::vector<ResourceName>& candidates) {
  Json json = to_json(record);
  json["candidates"] = candidates;
  return json.dump() + "\n";
}

std::optional<std::vector<ResourceName>> parse_candidates(std::string_view ticket) {
  const Json json = parse_object(ticket);
  const auto found = json.find("candidates");
  if (found == json.end() || !found->is_array()) return std::nullopt;
  std::vector<ResourceName> candidates;
  for (const Json& name : *found) {
    if (!name.is_string()) return std::nullopt;
    candidates.push_back(name.get<std::string>());
  }
  return candidates;
}

}  // namespace muster::lease

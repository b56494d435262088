#include "store/tensorboard_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/crc32c.hpp"
#include "system/host_name.hpp"
#include "base/text.hpp"

namespace muster::store {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view prefix = "events.out.tfevents.";

// Note [TensorBoard's format]
// A file is a sequence of records: length (8 bytes), its checksum (4), that many bytes, their checksum (4), all little
// endian. A checksum is CRC-32C, rotated and shifted so that a record within a record does not check itself. The bytes
// are a protocol-buffer message, Event, of which these fields are used:
//   Event: 1 wall_time double, 2 step varint, 3 file_version text, 5 summary, 7 session_log
//   Summary: 1 value, repeated. Value: 1 tag text, 2 simple_value float. SessionLog: 1 status (1 = start)
enum class WireType : unsigned { varint = 0, eight_bytes = 1, counted = 2, four_bytes = 5 };

template <class Number>
void put_little_endian(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) out += static_cast<char>(number >> (8 * i) & 0xFF);
}

void put_varint(std::string& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) out += static_cast<char>((number & 0x7F) | 0x80);
  out += static_cast<char>(number);
}

void put_key(std::string& out, unsigned field, WireType type) {
  put_varint(out, field << 3 | static_cast<unsigned>(type));
}

void put_counted(std::string& out, unsigned field, std::string_view bytes) {
  put_key(out, field, WireType::counted);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string begin_event(Moment time, std::int64_t step) {
  std::string event;
  put_key(event, 1, WireType::eight_bytes);
  put_little_endian(event,
                    std::bit_cast<std::uint64_t>(std::chrono::duration<double>(time.time_since_epoch()).count()));
  put_key(event, 2, WireType::varint);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

std::uint32_t masked(std::uint32_t checksum) { return std::rotr(checksum, 15) + 0xA282EAD8; }

std::string record(std::string_view event) {
  std::string out;
  put_little_endian(out, static_cast<std::uint64_t>(event.size()));
  put_little_endian(out, masked(crc32c(out)));
  out += event;
  put_little_endian(out, masked(crc32c(event)));
  return out;
}

std::string file_head(Moment now, std::optional<std::int64_t> go_on_after) {
  std::string version = begin_event(now, 0);
  put_counted(version, 3, "brain.Event:2");
  std::string head = record(version);
  if (go_on_after) {
    std::string start;  // everything from its step on is superseded
    put_key(start, 1, WireType::varint);
    put_varint(start, 1);
    std::string event = begin_event(now, *go_on_after + 1);
    put_counted(event, 7, start);
    head += record(event);
  }
  return head;
}

// The second in the new file's name: now, or later than that of every existing file.
std::int64_t free_second(const fs::path& folder, Moment now) {
  std::int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto taken = parse_number<std::int64_t>(split(name.substr(prefix.size()), '.').front());
    if (taken && *taken < 9'999'999'999) second = std::max(second, *taken + 1);
  }
  return second;
}

}  // namespace

std::string tensorboard_tag(std::string_view column) {
  constexpr std::string_view evaluation = "eval_";
  if (column.starts_with(evaluation)) return fmt::format("eval/{}", column.substr(evaluation.size()));
  return fmt::format("{}/{}", column == "exact_match" ? "eval" : "train", column);
}

Result<TensorBoardFile> TensorBoardFile::create(const fs::path& folder, Moment now,
                                                std::optional<std::int64_t> go_on_after) {
  const std::string name = fmt::format("{}{:010}.{}.{}.0", prefix, free_second(folder, now), host_name(), ::getpid());
  auto file = AppendedFile::create(folder / name);
  if (!file) return file.error();
  if (auto written = file->append(file_head(now, go_on_after)); !written) return written.error();
  return TensorBoardFile(std::move(*file));
}

Result<void> TensorBoardFile::append(Moment time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_counted(value, 1, scalar.tag);
    put_key(value, 2, WireType::four_bytes);
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_counted(summary, 1, value);
  }
  std::string event = begin_event(time, step);
  put_counted(event, 5, summary);
  return file_.append(record(event));
}

}  // namespace muster::store

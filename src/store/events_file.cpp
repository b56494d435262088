#include "store/events_file.hpp"

#include <algorithm>
#include <stdexcept>

#include "system/regular_file.hpp"
#include "base/text.hpp"
#include "json/json_text.hpp"

namespace muster::store {

using nlohmann::ordered_json;

Result<EventsFile> EventsFile::open(const std::filesystem::path& path) {
  auto file = AppendedFile::open_lines(path);
  if (!file) return file.error();
  return EventsFile(std::move(*file));
}

Result<void> EventsFile::append(Moment time, std::string_view event, std::optional<int> rank,
                                const ordered_json& fields) {
  ordered_json line{{"time", timestamp(time)}, {"event", event}};
  if (rank) line["rank"] = *rank;
  for (const auto& [key, value] : fields.items()) {
    if (line.contains(key)) throw std::logic_error("an event's own fields are named by its file: " + key);
    line[key] = value;
  }
  return file_.append(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

Result<std::vector<ordered_json>> read_last_events(const std::filesystem::path& path) {
  constexpr std::uint64_t enough = 256 * 1024;
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  const std::uint64_t length = std::min(enough, file->size());
  std::string text(length, '\0');
  if (auto read = file->read_at(file->size() - length, std::as_writable_bytes(std::span(text))); !read)
    return read.error();
  std::vector<ordered_json> events;
  for (const std::string& line : split(text, '\n'))
    if (auto event = parse_ordered_json_object(line, "event")) events.push_back(std::move(*event));
  return events;
}

}  // namespace muster::store

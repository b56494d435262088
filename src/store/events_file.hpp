// events.jsonl: what happened in a run, one JSON object per line, oldest first.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "store/appended_file.hpp"
#include "store/timestamp.hpp"

namespace muster::store {

class EventsFile {
 public:
  // Created if it is missing; existing contents stay, except for a torn last line.
  static Result<EventsFile> open(const std::filesystem::path& path);

  // {"time", "event", "rank" if there is one, then fields}, by one write(). fields: an object that names none of
  // those.
  Result<void> append(Moment time, std::string_view event, std::optional<int> rank = {},
                      const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());
  void wait_when_full(const FullDisk& full) { file_.wait_when_full(full); }
  Result<void> flush() const { return file_.flush(); }

 private:
  explicit EventsFile(AppendedFile file) : file_(std::move(file)) {}

  AppendedFile file_;
};

// The newest events, oldest first, of the last 256 KiB of the file. Lines that are not JSON objects are left out.
Result<std::vector<nlohmann::ordered_json>> read_last_events(const std::filesystem::path& path);

}  // namespace muster::store

#include "store/run_record.hpp"

#include <nlohmann/json.hpp>

#include "system/regular_file.hpp"
#include "json/json_text.hpp"
#include "json/member_reader.hpp"

namespace muster::store {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
constexpr std::uint64_t largest_record = 1 << 20;

std::string text_of(const json& object, const char* key) { return find_text(object, key).value_or(""); }

std::optional<Moment> moment_of(const json& object, const char* key) { return parse_timestamp(text_of(object, key)); }

int count_of(const json& object, const char* key, int otherwise) {
  return static_cast<int>(find_whole(object, key).value_or(otherwise));
}

std::optional<RunStart> start_of(const json& object) {
  const auto time = moment_of(object, "started");
  if (!time) return std::nullopt;
  RunStart start{*time, text_of(object, "host"), text_of(object, "muster"), count_of(object, "ranks", 1), {}, 0};
  if (const auto before = object.find("seconds_before"); before != object.end() && before->is_number())
    start.seconds_before = before->get<double>();
  if (const auto gpus = object.find("gpus"); gpus != object.end() && gpus->is_array())
    for (const json& gpu : *gpus)
      if (gpu.is_object())
        start.gpus.push_back({count_of(gpu, "index", 0), text_of(gpu, "name"), text_of(gpu, "uuid")});
  return start;
}

}  // namespace

std::string record_json(const RunRecord& record) {
  ordered_json object{{"version", 1}, {"name", record.name}, {"created", timestamp(record.created)}};
  if (record.start) {
    ordered_json gpus = ordered_json::array();
    for (const RunGpu& gpu : record.start->gpus)
      gpus.push_back({{"index", gpu.index}, {"name", gpu.name}, {"uuid", gpu.uuid}});
    object["started"] = timestamp(record.start->time);
    object["host"] = record.start->host;
    object["muster"] = record.start->muster;
    object["ranks"] = record.start->ranks;
    object["gpus"] = std::move(gpus);
    object["seconds_before"] = record.start->seconds_before;
  }
  return object.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::optional<RunRecord> read_record(const std::filesystem::path& run_folder) {
  const auto file = RegularFile::open(run_folder / record_file);
  if (!file || file->size() > largest_record) return std::nullopt;
  const auto text = file->beginning(file->size());
  if (!text) return std::nullopt;
  const auto object = parse_json_object(*text, record_file);
  if (!object) return std::nullopt;
  const auto created = moment_of(*object, "created");
  if (!created) return std::nullopt;
  return RunRecord{text_of(*object, "name"), *created, start_of(*object)};
}

}  // namespace muster::store

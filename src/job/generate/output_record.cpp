#include "job/generate/output_record.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <vector>

#include "base/text.hpp"
#include "job/model_fingerprint.hpp"
#include "json/json_text.hpp"
#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "system/line_reader.hpp"
#include "json/json_text.hpp"
#include "json/fields.hpp"

namespace muster::job {
namespace {

using Json = nlohmann::ordered_json;

constexpr int version = 1;
constexpr std::size_t longest_row = std::size_t{1} << 30;

Error other_file(std::string what) {
  return {Error::Kind::bad_input, std::move(what),
          "leave --resume out, which writes the file from its beginning, or name another one with -o"};
}

// "temperature was 0.5 and is 1", for every value that differs.
void compare(const Json& before, const Json& now, const std::string& prefix, std::vector<std::string>& differences) {
  for (const auto& [key, value] : now.items()) {
    const auto found = before.is_object() ? before.find(key) : before.end();
    if (value.is_object())
      compare(found == before.end() ? Json() : *found, value, key == "task" ? prefix : prefix + key + ".", differences);
    else if (found == before.end() || *found != value)
      differences.push_back(fmt::format("{}{} was {} and is {}", prefix, key,
                                        found == before.end() ? "not there" : found->dump(), value.dump()));
  }
}

Result<void> check_record(const std::string& output, const Json& record) {
  const std::filesystem::path path = record_path(output);
  const auto text = read_file(path);
  if (!text)
    return other_file(
        fmt::format("{} has rows, and no {} says what they were made from", output, path.filename().string()));
  const Json before = Json::parse(*text, nullptr, false);
  if (!before.is_object() || before.value("version", 0) != version)
    return other_file(fmt::format("{} cannot be read as the record of an output", path.string()));
  std::vector<std::string> differences;
  compare(before, record, "", differences);
  if (differences.empty()) return {};
  return other_file(fmt::format("{} was made with other settings or prompts: {}", output, join(differences, "; ")));
}

// The prompt and the sample of a row.
struct RowPlace {
  std::int64_t index = -1;
  std::int64_t sample = 0;
};
std::optional<RowPlace> place_of(const std::string& line, bool score) {
  const auto json = parse_json_object(line, "a row");
  if (!json) return std::nullopt;
  const auto index = json->find("index");
  const auto sample = json->find("sample");
  if (index == json->end() || !index->is_number_integer()) return std::nullopt;
  if (score) return RowPlace{index->get<std::int64_t>(), 0};
  if (sample == json->end() || !sample->is_number_integer()) return std::nullopt;
  return RowPlace{index->get<std::int64_t>(), sample->get<std::int64_t>()};
}

// An incomplete last line has no newline, and does not count.
Result<AnsweredRows> count_rows(const std::string& output, int file, std::int64_t size, const Json& record) {
  const bool score = record["task"]["score"].get<bool>();
  const std::int64_t samples = score ? 1 : record["task"]["samples"].get<std::int64_t>();
  LineReader lines(file, output, longest_row);
  AnsweredRows answered;
  std::int64_t bytes = 0;
  for (std::int64_t row = 0;; ++row) {
    auto next = lines.next();
    if (!next) return next.error();
    const auto* line = std::get_if<std::string>(&*next);
    if (line == nullptr || bytes + std::ssize(*line) >= size) return answered;
    bytes += std::ssize(*line) + 1;
    const auto place = place_of(*line, score);
    if (!place || place->index != row / samples || place->sample != row % samples)
      return other_file(fmt::format("{}:{} is not the row of prompt {}", output, row + 1, row / samples));
    if (place->sample == samples - 1) answered = {place->index + 1, bytes};
  }
}

}  // namespace

nlohmann::ordered_json output_record(const wire::Assignment& assignment, bool gpu, std::int64_t count,
                                     const std::string& sha256) {
  const auto& generation = std::get<wire::GenerateTask>(assignment.task);
  const wire::ModelChoice& model = generation.model;
  Json task = to_json(generation);
  for (const char* layout : {"batch_size", "cache_blocks", "stages", "in_host_memory", "on_disk", "stream"})
    task.erase(layout);
  Json adapters = Json::object();
  for (const std::string& folder : model.adapters) adapters[folder] = model_fingerprint(folder);
  return {{"version", version},
          {"task", std::move(task)},
          {"files", model_fingerprint(model.name)},
          {"tokenizer_files", model.tokenizer ? model_fingerprint(*model.tokenizer) : Json::object()},
          {"adapter_files", std::move(adapters)},
          {"seed", assignment.seed},
          {"device", gpu ? "cuda" : "cpu"},
          {"prompts", {{"count", count}, {"sha256", sha256}}}};
}

std::filesystem::path record_path(const std::string& output) { return output + ".job"; }

Result<AnsweredRows> find_answered(const std::string& output, const nlohmann::ordered_json& record) {
  const FileDescriptor file(::open(output.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file && errno == ENOENT) return AnsweredRows{};
  struct stat facts = {};
  if (!file || ::fstat(file.number(), &facts) != 0)
    return Error{Error::Kind::bad_input, fmt::format("cannot read {}: {}", output, system_reason()),
                 "leave --resume out, or name another file with -o"};
  if (!S_ISREG(facts.st_mode))
    return Error{Error::Kind::bad_input, fmt::format("the rows of {} cannot be read", output),
                 "leave --resume out"};
  if (facts.st_size == 0) return AnsweredRows{};
  if (auto checked = check_record(output, record); !checked) return checked.error();
  return count_rows(output, file.number(), facts.st_size, record);
}

}  // namespace muster::job

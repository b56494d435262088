#include "experiment/job_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "json/member_reader.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"

namespace muster::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

Error damaged(const fs::path& path) {
  return {Error::Kind::failed, fmt::format("{} is damaged", path.string()),
          fmt::format("rm {}, and that stage is run again", path.string())};
}

Result<std::optional<json>> read_object(const fs::path& path) {
  std::error_code failure;
  if (!fs::exists(path, failure)) return std::optional<json>();
  const auto text = read_file(path);
  if (!text) return text.error();
  json object = json::parse(*text, nullptr, false);
  if (!object.is_object()) return damaged(path);
  return std::optional(std::move(object));
}

ordered_json or_null(const std::optional<std::string>& text) {
  return text ? ordered_json(*text) : ordered_json(nullptr);
}

bool is_weights(const fs::path& file) {
  constexpr std::array<std::string_view, 4> endings{".safetensors", ".gguf", ".bin", ".pt"};
  return std::ranges::find(endings, file.extension().string()) != endings.end();
}

}  // namespace

std::string_view name(JobStatus status) {
  switch (status) {
    case JobStatus::not_started:
      return "NOT_STARTED";
    case JobStatus::data_generated:
      return "DATA_GENERATED";
    case JobStatus::model_trained:
      return "MODEL_TRAINED";
    case JobStatus::eval_completed:
      return "EVAL_COMPLETED";
    case JobStatus::failed:
      return "FAILED";
  }
  return "";
}

fs::path JobFolder::output(StageKind kind) const {
  switch (kind) {
    case StageKind::generate:
      return data();
    case StageKind::train:
      return path_ / "model";
    case StageKind::evaluate:
      return result();
  }
  return path_;
}

fs::path JobFolder::record(StageKind kind) const { return path_ / fmt::format("{}.json", name(kind)); }

Result<std::optional<StageRecord>> JobFolder::read(StageKind kind) const {
  const auto object = read_object(record(kind));
  if (!object) return object.error();
  if (!*object) return std::optional<StageRecord>();
  const auto status = find_text(**object, "status");
  if (status != "done" && status != "failed") return damaged(record(kind));
  StageRecord stage;
  stage.done = *status == "done";
  stage.reason = find_text(**object, "reason").value_or("");
  stage.model = find_text(**object, "model");
  stage.sha256 = find_text(**object, "sha256");
  stage.gpus = find_text(**object, "gpus").value_or("");
  if (const auto seconds = (*object)->find("seconds"); seconds != (*object)->end() && seconds->is_number())
    stage.seconds = seconds->get<double>();
  return std::optional(std::move(stage));
}

Result<std::optional<StartRecord>> JobFolder::read_start() const {
  const auto object = read_object(path_ / "start.json");
  if (!object) return object.error();
  if (!*object) return std::optional<StartRecord>();
  const auto model = find_text(**object, "model");
  const auto round = find_whole(**object, "from_round");
  if (!model || !round) return damaged(path_ / "start.json");
  return std::optional(StartRecord{*model, find_text(**object, "sha256"), static_cast<int>(*round)});
}

Result<void> JobFolder::write(StageKind kind, const StageRecord& stage) const {
  ordered_json out{{"stage", name(kind)}, {"status", stage.done ? "done" : "failed"}};
  if (!stage.done) out["reason"] = stage.reason;
  out["seconds"] = stage.seconds;
  out["gpus"] = stage.gpus;
  if (kind == StageKind::train && stage.done) {
    out["model"] = or_null(stage.model);
    out["sha256"] = or_null(stage.sha256);
  }
  out["command"] = stage.command;
  return write_file_atomically(record(kind), out.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

Result<void> JobFolder::write_start(const StartRecord& start) const {
  const ordered_json out{{"model", start.model}, {"sha256", or_null(start.sha256)}, {"from_round", start.from_round}};
  return write_file_atomically(path_ / "start.json", out.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

void JobFolder::forget(StageKind kind) const {
  std::error_code ignored;
  fs::remove(record(kind), ignored);
}

Result<Progress> progress_of(const ExperimentSpec& spec, const JobFolder& folder) {
  constexpr std::array reached{JobStatus::data_generated, JobStatus::model_trained, JobStatus::eval_completed};
  Progress progress;
  for (const StageKind kind : spec.wanted_stages()) {
    const auto record = folder.read(kind);
    if (!record) return record.error();
    if (!*record) return progress;
    if (!(*record)->done) {
      progress.status = JobStatus::failed;
      progress.reason = fmt::format("{}: {}", name(kind), (*record)->reason);
      return progress;
    }
    ++progress.done;
    progress.status = reached[static_cast<std::size_t>(kind)];
  }
  return progress;
}

Result<std::string> digest_of_weights(const fs::path& model) {
  std::error_code failure;
  if (fs::is_regular_file(model, failure)) return sha256_of_file(model);
  std::vector<fs::path> weights, others;
  for (fs::recursive_directory_iterator at(model, failure), end; !failure && at != end; at.increment(failure))
    if (at->is_regular_file(failure)) (is_weights(at->path()) ? weights : others).push_back(at->path());
  if (failure)
    return Error{Error::Kind::failed, fmt::format("cannot read {}: {}", model.string(), failure.message()), ""};
  std::vector<fs::path>& files = weights.empty() ? others : weights;
  std::ranges::sort(files);
  if (files.empty())
    return Error{Error::Kind::failed, fmt::format("{} holds no file", model.string()), "a model is needed there"};
  if (files.size() == 1) return sha256_of_file(files.front());
  std::string list;
  for (const fs::path& file : files) {
    const auto digest = sha256_of_file(file);
    if (!digest) return digest.error();
    list += fmt::format("{}  {}\n", *digest, fs::relative(file, model, failure).string());
  }
  Sha256 all;
  all.add(std::as_bytes(std::span(list)));
  return all.finish();
}

}  // namespace muster::experiment

#include "job/train/task_identity.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "job/model_fingerprint.hpp"
#include "job/train/train_question.hpp"
#include "json/fields.hpp"
#include "spec/codec.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "wire/run_identity.hpp"

namespace muster::job {
namespace {

std::string digest_of(const std::string& file) {
  const auto bytes = read_file(file);
  Sha256 digest;
  if (bytes) digest.add(std::as_bytes(std::span(*bytes)));
  return digest.finish();
}

// Where the scores of prepared data are kept that the weights give it which a run begins with: beside it, under a name that
// follows from all that their bits follow from.
std::string reference_file(const std::string& data, const wire::TrainTask& task, const spec::RunSpec& spec, bool on_gpu) {
  constexpr int scoring_rules = 1;
  std::string text = fmt::format("scores {}\n{}\n{} {} {} {}\n", scoring_rules, model_fingerprint(task.model).dump(),
                                 word(task.compute), spec::write(task.attention), on_gpu, task.deterministic);
  if (task.random_weights) text += fmt::format("random {}\n", spec.experiment.seed);
  if (task.adapter) text += model_fingerprint(*task.adapter).dump() + "\n";
  if (task.weights) text += print_fields(*task.weights) + "\n";
  Sha256 digest;
  digest.add(std::as_bytes(std::span(text)));
  return fmt::format("{}.{}.scores", data, digest.finish().substr(0, 20));
}

}  // namespace

std::string identity_of(const wire::TrainTask& task, const spec::RunSpec& spec) {
  wire::TrainTask counted = task;
  if (!spec.training.decay_steps) counted.optimizer.decay_steps = 0;  // it follows from the number of steps
  std::string text = fmt::format("{}\n{}\n{}\n{}", wire::identity_text(counted), spec.experiment.seed,
                                       model_fingerprint(task.model).dump(),
                                       std::filesystem::path(task.data).filename().string());
  if (task.adapter) text += "\n" + model_fingerprint(*task.adapter).dump();
  if (task.value_head) text += "\nvalues of " + digest_of(*task.value_head);
  if (task.critic_model) text += "\ncritic " + model_fingerprint(*task.critic_model).dump();
  if (task.judge) text += "\njudged by " + model_fingerprint(*task.judge).dump();
  Sha256 digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.finish();
}

void name_reference(wire::TrainTask& task, const spec::RunSpec& spec, bool on_gpu) {
  if (!spec::has_reference(task.algorithm) || task.preferences->reference_free) return;
  task.reference = reference_file(task.data, task, spec, on_gpu);
  if (task.evaluation.data) task.evaluation.reference = reference_file(*task.evaluation.data, task, spec, on_gpu);
}

}  // namespace muster::job

#include "job/train/halfway_model.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "job/builtin_model.hpp"
#include "system/allotted_cores.hpp"

namespace muster::job {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t halfway_steps = 350;

// The same bits wherever it is made: on CPU ranks, with exact sums.
Result<spec::ResolvedSpec> halfway_settings(const fs::path& output) {
  auto settled = settle_training_settings({});
  if (!settled) return settled;
  spec::RunSpec& spec = settled->spec;
  spec.experiment.output = output.string();
  spec.distributed.device = spec::Device::cpu;
  spec.distributed.ranks = std::min(2, allotted_cores());
  spec.training.deterministic = true;
  spec.training.max_steps = halfway_steps;
  spec.training.lr_scheduler = spec::RateSchedule::constant;
  spec.training.save_at_end = spec::FinalSave::model;
  spec.training.save_steps.reset();
  spec.training.eval_steps.reset();
  return settled;
}

}  // namespace

fs::path halfway_model_folder(const fs::path& cache) {
  return cache / "models" / fmt::format("llama-0.6m-halfway-{}", halfway_steps);
}

Result<void> make_halfway_model(host::Host& host, const spec::RunSpec& asked, const fs::path& cache,
                                const TrainListener& listener) {
  std::error_code failed;
  const fs::path folder = halfway_model_folder(cache);
  if (asked.model.path != halfway_model_name || fs::exists(folder / "config.json", failed)) return {};
  listener.note(fmt::format("{} is made first, once: {} steps from random weights", halfway_model_name, halfway_steps));
  const fs::path work = cache / "models" / fmt::format(".halfway-{}", ::getpid());
  auto settings = halfway_settings(work);
  if (!settings) return settings.error();
  const TrainRequest request{std::move(*settings), host::Purpose::compute};
  auto plan = plan_training(host, request, {});
  if (!plan) return plan.error();
  if (!plan->fits()) return refusal_of(*plan);
  TrainListener quiet;
  quiet.note = listener.note;
  quiet.evaluated = listener.evaluated;
  quiet.work = [](const JobProgress&) {};
  auto summary = train(host, request, *plan, quiet);
  // Another process may have made the same meanwhile.
  if (summary && summary->exit_code == 0 && !fs::exists(folder / "config.json", failed))
    fs::rename(*summary->folder / "model", folder, failed);
  fs::remove_all(work, failed);
  if (!summary) return summary.error();
  if (!fs::exists(folder / "config.json", failed))
    return Error{Error::Kind::failed, fmt::format("{} was not made", halfway_model_name), "run the same command again"};
  return {};
}

}  // namespace muster::job

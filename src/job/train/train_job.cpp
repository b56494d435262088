#include "job/train/train_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "data/prepare_data.hpp"
#include "job/train/micro_batch_cache.hpp"
#include "job/train/model_flops.hpp"
#include "json/fields.hpp"
#include "spec/codec.hpp"
#include "spec/objective_metrics.hpp"

namespace muster::job {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes between_reports(5);
// Ranks that wait for each other name the missing one themselves; they come first.
constexpr std::chrono::seconds after_ranks(15);
constexpr double newest_share = 0.1;  // of the newest step in the smoothed time

template <class Body>
nlohmann::ordered_json fields_of(const Body& body) {
  auto fields = nlohmann::ordered_json::parse(print_fields(body), nullptr, false);
  // events.jsonl has always had the kind of a failure as a number.
  if constexpr (std::is_same_v<Body, wire::Failed>) fields["kind"] = static_cast<int>(body.error.kind);
  return fields;
}

std::optional<double> metric_of(const wire::StepRecord& step, std::string_view name) {
  if (!step.metrics) return std::nullopt;
  const auto found = std::ranges::find(*step.metrics, name, &wire::NamedNumber::name);
  return found == step.metrics->end() ? std::nullopt : std::optional(found->value);
}

void add_metrics(const std::optional<std::vector<wire::NamedNumber>>& metrics, std::vector<store::Measured>& measured) {
  if (!metrics) return;
  for (const wire::NamedNumber& metric : *metrics) measured.push_back({metric.name, metric.value});
}

}  // namespace

std::vector<std::string> train_columns(const wire::TrainTask& task) {
  std::vector<std::string> names{"loss",  "learning_rate",     "gradient_norm", "tokens",     "seconds",
                                 "epoch", "tokens_per_second", "eval_loss",     "exact_match"};
  for (const std::string_view metric : spec::metrics_of_round(task.algorithm)) names.emplace_back(metric);
  const bool samples = spec::samples_answers(task.algorithm);
  if (task.reward && samples)
    for (const spec::RewardFunction function : task.reward->functions)
      for (const char* number : {"mean", "std"}) names.push_back(fmt::format("rewards/{}/{}", spec::write(function), number));
  if (task.environment) {
    for (const char* number : {"mean", "std"})
      names.push_back(fmt::format("rewards/{}/{}", spec::write(task.environment->kind), number));
    names.emplace_back(spec::turns_metric);
  }
  const auto beside = task.combined ? spec::metrics_of_combined() : spec::metrics_beside_loss(task.algorithm);
  for (const std::string_view metric : beside) names.emplace_back(metric);
  if (const auto& episodes = task.evaluation.episodes)
    for (const wire::EvaluatedEnvironment& environment : episodes->environments) {
      names.push_back(environment.name + "/reward");
      if (environment.options.kind != spec::EnvironmentKind::debate) names.push_back(environment.name + "/success");
    }
  if (samples) return names;  // there is no loss of evaluations
  for (const std::string_view metric : beside) names.push_back(fmt::format("eval_{}", metric));
  return names;
}

TrainJob::TrainJob(const TrainPlan& plan, store::RunRecorder& recorder, TrainRecord& record,
                   const TrainListener& listener, LookAtDevices look)
    : plan_(plan),
      recorder_(recorder),
      record_(record),
      listener_(listener),
      look_(std::move(look)),
      last_sign_(Clock::now()),
      last_report_(Clock::now()) {}

std::vector<store::Measured> measured_of(const wire::StepRecord& step) {
  std::vector<store::Measured> measured{
      {"loss", step.loss},
      {"learning_rate", step.learning_rate},
      {"tokens", static_cast<double>(step.tokens)},
      {"seconds", step.seconds},
      {"tokens_per_second", static_cast<double>(step.tokens) / std::max(step.seconds, 1e-9)},
      {"epoch", step.epoch}};
  if (step.gradient_norm) measured.push_back({"gradient_norm", *step.gradient_norm});
  if (step.metrics)
    for (const wire::NamedNumber& metric : *step.metrics) measured.push_back({metric.name, metric.value});
  return measured;
}

std::vector<store::Measured> evaluation_of(const checkpoint::StepNumbers& step) {
  std::vector<store::Measured> measured;
  if (step.eval_loss) measured.push_back({"eval_loss", *step.eval_loss});
  if (step.exact_match) measured.push_back({"exact_match", *step.exact_match});
  add_metrics(step.eval_metrics, measured);
  return measured;
}

std::vector<RankReading> rank_readings(const plan::Plan& plan, const std::map<int, wire::MemoryUse>& memory,
                                       const std::vector<DeviceUse>& devices) {
  std::vector<RankReading> readings;
  for (const auto& [rank, use] : memory) {
    RankReading reading;
    reading.rank = rank;
    reading.allocated = ByteCount{use.used};
    reading.reserved = ByteCount{use.reserved};
    reading.total = ByteCount{use.total.value_or(0)};
    const auto planned = std::ranges::find(plan.ranks, rank, &plan::RankPlan::rank);
    if (planned != plan.ranks.end() && planned->gpu) reading.gpu = planned->gpu->number;
    const auto device = std::ranges::find(devices, reading.gpu.value_or(-1), &DeviceUse::gpu);
    if (device != devices.end()) {
      reading.utilization = device->utilization;
      reading.used = device->used;
    }
    readings.push_back(reading);
  }
  return readings;
}

// What cannot be written down now cannot be after a restart either.
Result<void> TrainJob::on_event(const wire::Event& event) {
  last_sign_ = Clock::now();
  auto taken = take(event);
  last_sign_ = Clock::now();  // writing may have waited for room on the disk
  if (!taken) record_.unwritable = true;
  return taken;
}

Result<void> TrainJob::take(const wire::Event& event) {
  const auto write = [&](const auto& body) {
    return recorder_.add_event(event.time, std::decay_t<decltype(body)>::word, event.rank, fields_of(body));
  };
  return std::visit(
      [&](const auto& body) -> Result<void> {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, wire::TrainStep>) {
          if (auto taken = take(body, event.time); !taken) return taken;
        } else if constexpr (std::is_same_v<Body, wire::Evaluated>) {
          if (auto taken = take(body, event.time); !taken) return taken;
        } else if constexpr (std::is_same_v<Body, wire::MemoryUse>) {
          take(body, event.rank);
        } else if constexpr (std::is_same_v<Body, wire::PassReduced>) {
          take(body, event.rank);
        } else if constexpr (std::is_same_v<Body, wire::Ready>) {
          computing_ = true;
        } else if constexpr (std::is_same_v<Body, wire::Saved>) {
          work_.restart();
          record_.saved = body.step;
        } else if constexpr (std::is_same_v<Body, wire::Waiting>) {
          listener_.note(body.what);
        } else if constexpr (std::is_same_v<Body, wire::Failed>) {
          if (body.error.kind == Error::Kind::refused) record_.hopeless = body.error;
        } else if constexpr (std::is_same_v<Body, wire::Done>) {
          ++done_;
        } else if constexpr (std::is_same_v<Body, wire::Progress>) {
          if (listener_.work) listener_.work(work_.heard(body, event.rank));
          return {};
        } else if constexpr (std::is_same_v<Body, wire::Want> || std::is_same_v<Body, wire::Token> ||
                             std::is_same_v<Body, wire::TaskResult>) {
          return {};
        }
        return write(body);
      },
      event.body);
}

void TrainJob::take(const wire::PassReduced& shrunk, int rank) {
  record_.shrunk = shrunk;
  KnownPasses(data::cache_folder_from_environment()).keep(plan_, plan_.task(), {shrunk.micro_batch, shrunk.recompute});
  const std::string recompute = spec::write(shrunk.recompute);
  listener_.note(fmt::format(
      "rank {} ran out of memory in step {}; it is computed again, with {} sequence{} a pass and {} of the activations "
      "recomputed. The result is the same; training.micro_batch_size={} training.gradient_checkpointing={} begins so",
      rank, shrunk.step, shrunk.micro_batch, shrunk.micro_batch == 1 ? "" : "s",
      shrunk.recompute == spec::Recomputation::none   ? "none"
      : shrunk.recompute == spec::Recomputation::full ? "all"
                                                      : "some",
      shrunk.micro_batch, recompute));
}

// Share of the peak of all ranks' devices together.
std::optional<double> TrainJob::utilization(double tokens_per_second) const {
  if (!plan_.job.selection || !plan_.plan.ranks.front().gpu) return std::nullopt;
  const auto speed = gpu_speed(plan_.plan.ranks.front().gpu->name);
  if (!speed) return std::nullopt;
  const double used = tokens_per_second * flops_per_token(plan_.question.model->config, plan_.plan.parameters,
                                                          plan_.task().sequence_length);
  return used / (speed->flops * static_cast<double>(plan_.plan.ranks.size()));
}

TrainProgress TrainJob::progress_of(const wire::TrainStep& step) {
  smoothed_seconds_ =
      smoothed_seconds_ == 0 ? step.seconds : smoothed_seconds_ + newest_share * (step.seconds - smoothed_seconds_);
  TrainProgress progress;
  progress.step = step.step;
  progress.steps = plan_.task().steps;
  progress.loss = step.loss;
  progress.reward = metric_of(step, "reward");
  progress.answer_tokens = metric_of(step, "completions/mean_length");
  const bool scores = plan_.task().reward_model.has_value();
  progress.preferred = metric_of(step, scores ? "accuracy" : "rewards/accuracies");
  progress.margin = metric_of(step, scores ? "margin" : "rewards/margins");
  progress.learning_rate = step.learning_rate;
  progress.gradient_norm = step.gradient_norm.value_or(std::numeric_limits<double>::infinity());
  progress.tokens_per_second = static_cast<double>(step.tokens) / std::max(step.seconds, 1e-9);
  progress.seconds_left = smoothed_seconds_ * static_cast<double>(progress.steps - step.step);
  progress.skipped_steps = record_.skipped;
  progress.flop_utilization = utilization(progress.tokens_per_second);
  progress.epoch = step.epoch;
  for (const auto& [rank, use] : record_.memory)
    progress.memory = ByteCount{std::max(progress.memory.value_or(ByteCount{}).value, use.peak)};
  return progress;
}

Result<void> TrainJob::take(const wire::TrainStep& step, store::Moment time) {
  record_.step = step.step;
  record_.loss = step.loss;
  if (step.skipped) ++record_.skipped;
  const TrainProgress progress = progress_of(step);
  if (auto written = recorder_.add_step(time, step.step, measured_of(step)); !written) return written;
  work_.restart();
  if (listener_.progress) listener_.progress(progress);
  if (Clock::now() - last_report_ >= between_reports) report_memory();
  return {};
}

Result<void> TrainJob::take(const wire::Evaluated& evaluated, store::Moment time) {
  record_.evaluated = evaluated;
  work_.restart();
  std::vector<store::Measured> measured;
  if (evaluated.loss) measured.push_back({"eval_loss", *evaluated.loss});
  if (const auto share = evaluated.exact_match()) measured.push_back({"exact_match", *share});
  add_metrics(evaluated.metrics, measured);
  if (recorder_.last_step() == evaluated.step)
    if (auto written = recorder_.add_to_step(time, evaluated.step, measured); !written) return written;
  if (listener_.evaluated) listener_.evaluated(evaluated);
  return {};
}

void TrainJob::take(const wire::MemoryUse& use, int rank) {
  record_.memory[rank] = use;
  for (const MemoryWarning& warning : memory_warnings(rank_readings(plan_.plan, record_.memory, {})))
    if (std::ranges::find(warned_, warning.gpu) == warned_.end()) {
      warned_.push_back(warning.gpu);
      listener_.note(warning.text);
    }
}

void TrainJob::report_memory() {
  last_report_ = Clock::now();
  if (record_.memory.empty() || !listener_.report) return;
  const std::vector<DeviceUse> devices = look_ ? look_() : std::vector<DeviceUse>();
  listener_.report(memory_report(rank_readings(plan_.plan, record_.memory, devices)));
}

std::optional<Clock::time_point> TrainJob::deadline() {
  if (!computing_) return std::nullopt;
  const auto patience = last_sign_ + plan_.job.assignment.timeout;
  return plan_.job.ranks == 1 ? patience : patience + after_ranks;
}

Error TrainJob::deadline_passed() {
  return {
      Error::Kind::failed,
      fmt::format("no rank has reported anything for {} s after step {}",
                  std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - last_sign_).count(), record_.step),
      "distributed.watchdog_seconds says how long a step may take"};
}

}  // namespace muster::job

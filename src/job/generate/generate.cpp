#include "job/generate/generate.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/byte_count.hpp"
#include "base/count_of.hpp"
#include "base/duration.hpp"
#include "job/generate/generate_job.hpp"

namespace muster::job {
namespace {

using std::chrono::milliseconds;
using Json = nlohmann::ordered_json;

double seconds(milliseconds span) { return static_cast<double>(span.count()) / 1000.0; }

// Absent while it cannot be estimated.
std::optional<double> rate(std::int64_t count, milliseconds span) {
  if (count == 0 || span.count() == 0) return std::nullopt;
  return static_cast<double>(count) / seconds(span);
}

// "48.3", "1320".
std::string rate_text(double value) {
  return value < 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string time_left(const GenerateProgress& progress) {
  const std::int64_t now = progress.prompts - progress.earlier;
  if (!progress.total || now <= 0 || progress.prompts >= *progress.total) return "";
  const double each = static_cast<double>(progress.generating.count()) / static_cast<double>(now);
  const double left = each * static_cast<double>(*progress.total - progress.prompts);
  const auto whole_seconds = milliseconds(static_cast<std::int64_t>(std::ceil(left / 1000.0)) * 1000);
  return fmt::format(", {} left", muster::to_string(whole_seconds));
}

// "3.1 GiB", "3.1 GiB of 140 GiB".
std::string memory_text(const RankMemory& memory) {
  const std::string peak = to_string(ByteCount{memory.peak});
  return memory.limit ? fmt::format("{} of {}", peak, to_string(ByteCount{*memory.limit})) : peak;
}

std::string ranks_text(const GeneratePlan& plan, const GenerateSummary& summary) {
  std::string text;
  if (summary.memory)
    text += fmt::format(", at most {}{}", memory_text(*summary.memory), plan.job.ranks > 1 ? " a rank" : "");
  if (summary.lost_ranks > 0)
    text += fmt::format("; {} lost, {} redone", count_of(summary.lost_ranks, "rank"), count_of(summary.redone, "prompt"));
  return text;
}

std::string type_word(const GeneratePlan& plan) { return std::string(name(plan.plan.workload.weights)); }

}  // namespace

std::string progress_text(const GenerateProgress& progress) {
  if (progress.loading) {
    const std::string what = progress.what.empty() ? "starting" : progress.what;
    return progress.share > 0 ? fmt::format("{}: {:.0f} %", what, 100 * progress.share) : what;
  }
  std::string text = progress.total ? fmt::format("{}/{} prompts", progress.prompts, *progress.total)
                                    : count_of(progress.prompts, "prompt");
  if (const auto speed = rate(progress.tokens, progress.generating))
    text += fmt::format(", {} tokens/s", rate_text(*speed));
  text += time_left(progress);
  return progress.memory ? fmt::format("{}, {}", text, memory_text(*progress.memory)) : text;
}

std::string summary_text(const GeneratePlan& plan, const GenerateSummary& summary) {
  const bool score = plan.task().score;
  std::string text = count_of(summary.prompts, "prompt");
  if (summary.exit_code != 0 && plan.total)
    text = fmt::format("interrupted: {} of {}", summary.earlier + summary.prompts, count_of(*plan.total, "prompt"));
  else if (summary.earlier > 0)
    text += fmt::format(" after {} of an earlier run", summary.earlier);
  if (summary.answers != summary.prompts) text += fmt::format(", {}", count_of(summary.answers, "answer"));
  text += fmt::format(", {} {} in {:.1f} s", count_of(summary.tokens, "token"), score ? "scored" : "generated",
                      seconds(summary.generating));
  if (const auto speed = rate(summary.tokens, summary.generating))
    text += fmt::format(" ({} tokens/s)", rate_text(*speed));
  return text +
         fmt::format("; loading took {:.1f} s; {} in {}", seconds(summary.loading), plan.device, type_word(plan)) +
         ranks_text(plan, summary);
}

std::string summary_json(const GeneratePlan& plan, const GenerateSummary& summary) {
  const auto speed = rate(summary.tokens, summary.generating);
  const Json json = {{"model", plan.task().model.name},
                     {"device", plan.device},
                     {"dtype", type_word(plan)},
                     {"ranks", plan.job.ranks},
                     {"batch_size", plan.task().batch_size},
                     {"prompts", summary.prompts},
                     {"earlier_prompts", summary.earlier},
                     {"answers", summary.answers},
                     {"prompt_tokens", summary.prompt_tokens},
                     {"tokens", summary.tokens},
                     {"shortened_prompts", summary.shortened},
                     {"redone_prompts", summary.redone},
                     {"failed_prompts", summary.failed},
                     {"lost_ranks", summary.lost_ranks},
                     {"peak_memory_bytes", summary.memory ? Json(summary.memory->peak) : Json()},
                     {"loading_seconds", seconds(summary.loading)},
                     {"seconds", seconds(summary.generating)},
                     {"tokens_per_second", speed ? Json(*speed) : Json()},
                     {"interrupted", summary.exit_code != 0}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Result<GenerateSummary> generate(host::Host& host, const GenerateRequest& request, const GeneratePlan& plan,
                                 const GenerateListener& listener) {
  auto prompts = open_prompts(request);
  if (!prompts) return prompts.error();
  auto output = LineOutput::open(request.output);
  if (!output) return output.error();
  const bool kept = output->is_regular_file() && !plan.record.is_null();
  GenerateJob job(std::move(*prompts), std::move(*output),
                  {plan.task(), plan.job.ranks, plan.total, plan.answered, plan.record}, listener);
  auto code = run_workers(host, plan.job, job, listener.note);
  GenerateSummary summary = job.summary();
  if (const std::int64_t there = summary.earlier + summary.prompts; kept && there > 0 && (!code || *code != 0))
    listener.note(fmt::format("{} has the answers to {}; the same command with --resume continues from there",
                              request.output, count_of(there, "prompt")));
  if (!code) {
    Error error = code.error();
    if (const std::string suspicion = job.suspicion(); !suspicion.empty()) error.what += "\n" + suspicion;
    return error;
  }
  summary.exit_code = *code;
  if (*code == 0 && job.missing() > 0)
    return Error{Error::Kind::failed, fmt::format("no answer came to {}", count_of(job.missing(), "prompt")),
                 "report this as a bug of muster"};
  return summary;
}

}  // namespace muster::job

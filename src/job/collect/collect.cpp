#include "job/collect/collect.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/count_of.hpp"
#include "chat/model_text.hpp"
#include "job/collect/collect_job.hpp"
#include "job/model_forms.hpp"
#include "job/train/episode_rows.hpp"

namespace muster::job {

Result<CollectPlan> plan_collection(host::Host& host, const CollectRequest& request) {
  const spec::RunSpec& spec = request.settings.spec;
  std::vector<Problem> problems;
  if (!spec.model.path) problems.push_back({"", "no model is named", "-m MODEL: a folder, or a name that muster model list shows"});
  if (!spec.data.path) problems.push_back({"", "no data is named", "--data FILE: JSON lines, an episode each (docs/environments.md)"});
  if (!spec.environment.type) problems.push_back({"", "no environment is named", "-e code, math, tool, debate or program"});
  if (spec.generation.samples != 1)
    problems.push_back({"", fmt::format("generation.samples is {}, and an episode has one answer a turn", spec.generation.samples),
                        "leave it out; -n N plays more episodes than there are rows, each with other answers"});
  if (!problems.empty()) return to_error(problems);

  GenerateRequest generation;
  generation.settings = request.settings;
  generation.purpose = request.purpose;
  // Their number is what a plan needs to know of prompts that are not known yet.
  generation.texts.assign(static_cast<std::size_t>(request.episodes), "episode");
  auto plan = plan_generation(host, generation);
  if (!plan) return plan.error();
  CollectPlan made{std::move(*plan), {}, false};
  made.generation.job.name = "collect";
  made.generation.job.survives_losses = false;
  spec::ModelSpec named = spec.model;
  if (auto taken = take_model_name(named); !taken) return taken.error();
  const auto text = chat::read_model_text(named.tokenizer.value_or(*named.path), spec::model_search_from_environment());
  if (!text) return text.error();
  made.has_template = text->has_chat_template();
  auto rows = read_episodes(spec, source_of_episodes(spec), *text);
  if (!rows) return rows.error();
  for (data::RowPrompt& row : *rows) made.rows.push_back(std::move(row.row));
  return made;
}

std::string summary_text(const CollectPlan& plan, const CollectSummary& summary) {
  std::string text = fmt::format("{} of {}, mean reward {:.4g}, {} written, {} on {}", count_of(summary.episodes, "episode"),
                                 count_of(summary.answers, "answer"), summary.mean_reward, summary.written,
                                 count_of(summary.tokens, "token"), plan.generation.device);
  if (summary.unknown > 0) text += fmt::format("; of {} the worth is unknown", summary.unknown);
  return text;
}

std::string summary_json(const CollectPlan& plan, const CollectSummary& summary) {
  const nlohmann::ordered_json json{{"model", plan.generation.task().model.name},
                                    {"device", plan.generation.device},
                                    {"ranks", plan.generation.job.ranks},
                                    {"episodes", summary.episodes},
                                    {"written", summary.written},
                                    {"answers", summary.answers},
                                    {"tokens", summary.tokens},
                                    {"unknown", summary.unknown},
                                    {"mean_reward", summary.mean_reward},
                                    {"interrupted", summary.exit_code != 0}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<CollectSummary> collect(host::Host& host, const CollectRequest& request, const CollectPlan& plan,
                               const CollectListener& listener) {
  const auto environment = environment::make_environment(*request.settings.spec.environment_options());
  if (!environment) return environment.error();
  auto output = LineOutput::open(request.output);
  if (!output) return output.error();
  CollectJob job(request, plan, **environment, std::move(*output), listener);
  const auto code = run_workers(host, plan.generation.job, job, listener.note);
  if (!code) return code.error();
  CollectSummary summary = job.summary();
  summary.exit_code = *code;
  return summary;
}

}  // namespace muster::job

#include "job/train/evaluated_episodes.hpp"

#include <fmt/format.h>

#include "job/question_file.hpp"
#include "job/train/episode_rows.hpp"
#include "spec/codec.hpp"

namespace muster::job {

Result<EvaluatedEpisodes> prepare_episodes(const spec::RunSpec& spec, const chat::ModelText& text,
                                           const std::filesystem::path& cache, std::int64_t most_tokens) {
  EvaluatedEpisodes made;
  const auto& list = spec.environment.evaluations.list;
  if (list.empty()) return made;
  wire::EpisodeEvaluations evaluations;
  evaluations.episodes = spec.training.eval_episodes;
  evaluations.draws = spec.episode_draws();
  std::vector<spec::EnvironmentKind> kinds;
  for (const spec::EvaluationEnvironment& one : list) kinds.push_back(one.type);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = spec::metric_name(kinds, i);
    evaluations.environments.push_back({name, spec.evaluation_environment(list[i])});
    const std::string rows = list[i].data ? *list[i].data : spec.data.eval_path.value_or(*spec.data.path);
    auto prompts = read_episodes(spec, {evaluations.environments.back().options, rows, true}, text);
    if (!prompts)
      return Error{prompts.error().kind, fmt::format("environment.evaluations, {}: {}", spec::write(kinds[i]), prompts.error().what),
                   prompts.error().remedy};
    if (auto fits = check_room(*prompts, text, most_tokens); !fits) return fits.error();
    auto path = keep_prompts(*prompts, cache);
    if (!path) return path.error();
    made.rows.push_back(path->string());
  }
  made.evaluations = std::move(evaluations);
  return made;
}

}  // namespace muster::job

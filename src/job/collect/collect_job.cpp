#include "job/collect/collect_job.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/count_of.hpp"
#include "json/fields.hpp"

namespace muster::job {
namespace {

// Episodes that are played at a time: enough to keep ranks busy, few enough to hold.
constexpr std::int64_t most_live = 4096;

}  // namespace

CollectJob::CollectJob(const CollectRequest& request, const CollectPlan& plan, const environment::Environment& environment,
                       LineOutput output, CollectListener listener)
    : request_(request),
      plan_(plan),
      environment_(environment),
      options_(*request.settings.spec.environment_options()),
      output_(std::move(output)),
      listener_(std::move(listener)),
      stepped_call_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// Absent: all that is left waits for answers, or nothing is left.
Result<std::optional<std::int64_t>> CollectJob::next_episode() {
  if (!waiting_.empty()) {
    const std::int64_t episode = waiting_.front();
    waiting_.pop_front();
    return std::optional(episode);
  }
  if (begun_ == request_.episodes || std::ssize(live_) >= most_live) return std::optional<std::int64_t>();
  const std::int64_t episode = begun_++;
  const std::int64_t row = episode % std::ssize(plan_.rows);
  const auto seed = environment::seed_of_row(static_cast<std::uint64_t>(request_.settings.spec.experiment.seed),
                                             static_cast<std::uint64_t>(episode));
  auto session = environment_.reset(plan_.rows[static_cast<std::size_t>(row)], seed);
  if (!session) return session.error();
  live_.emplace(episode, Trajectory(std::move(*session), row, seed));
  return std::optional(episode);
}

// No rank gets more than its share of what is under way, so that none is idle at the end.
Result<wire::NextRequest> CollectJob::next_request(int rank) {
  if (auto taken = take_stepped(); !taken) return taken.error();
  const std::int64_t replicas = std::max(plan_.generation.job.ranks / plan_.generation.stages(), 1);
  const std::int64_t left = std::ssize(live_) + request_.episodes - begun_;
  if (left == 0) return wire::NextRequest(wire::EndOfRequests{});
  const auto held = std::ranges::count_if(holders_, [&](const auto& entry) { return entry.second == rank; });
  if (held >= (left + replicas - 1) / replicas) return wire::NextRequest(wire::NotYet{});
  const auto episode = next_episode();
  if (!episode) return episode.error();
  if (!*episode) return wire::NextRequest(wire::NotYet{});
  const Trajectory& trajectory = live_.at(**episode);
  const std::int64_t index = index_of(**episode, trajectory.answers());
  holders_[index] = rank;
  return wire::NextRequest(wire::Request{index, trajectory.prompt(plan_.has_template).dump(
                                                    -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)});
}

Result<void> CollectJob::take(const wire::TaskResult& result) {
  const auto answers = parse_fields<wire::GenerationResult>(result.row, "a result");
  if (!answers) return answers.error();
  const std::int64_t episode = result.index / options_.turns;
  const auto found = live_.find(episode);
  if (holders_.erase(result.index) == 0 || found == live_.end() || answers->samples.size() != 1)
    return Error{Error::Kind::failed, fmt::format("a result came for request {}, which waits for none", result.index),
                 "report this as a bug of muster"};
  const wire::Answer& answer = answers->samples.front();
  if (answer.error)
    return Error{Error::Kind::failed, fmt::format("episode {}: {}", episode, *answer.error),
                 "the model's weights or its numbers' range are broken: check where it comes from, and try --dtype float32"};
  summary_.tokens += std::ssize(answer.tokens);
  ++summary_.answers;
  // A conversation whose beginning the model no longer sees is over as well.
  const bool is_last = answer.finish != "stop" || answers->dropped_tokens > 0;
  if (!threads_) threads_.emplace(environment::steps_at_once(options_));
  threads_->add([this, episode, &trajectory = found->second, text = answer.text, is_last] {
    trajectory.answer(text, is_last);
    {
      const std::scoped_lock lock(stepped_mutex_);
      stepped_.push_back(episode);
    }
    ::eventfd_write(stepped_call_.number(), 1);
  });
  return {};
}

Result<void> CollectJob::take_stepped() {
  eventfd_t count = 0;
  ::eventfd_read(stepped_call_.number(), &count);
  std::vector<std::int64_t> stepped;
  {
    const std::scoped_lock lock(stepped_mutex_);
    stepped = std::exchange(stepped_, {});
  }
  for (const std::int64_t episode : stepped) {
    if (!live_.at(episode).is_over())
      waiting_.push_back(episode);
    else if (auto ended = end(episode); !ended)
      return ended;
  }
  if (!stepped.empty()) tell_progress();
  return {};
}

Result<void> CollectJob::end(std::int64_t episode) {
  const Trajectory& trajectory = live_.at(episode);
  const auto reward = trajectory.reward(options_);
  const bool is_kept = !request_.least_reward || (reward && *reward >= *request_.least_reward);
  ++summary_.episodes;
  summary_.written += is_kept ? 1 : 0;
  summary_.unknown += reward ? 0 : 1;
  rewards_ += reward.value_or(0);
  summary_.mean_reward = rewards_ / static_cast<double>(std::max<std::int64_t>(summary_.episodes - summary_.unknown, 1));
  lines_.add(episode, is_kept ? trajectory.line(episode, options_) : "");
  live_.erase(episode);
  const std::string ready = lines_.take();
  return ready.empty() ? Result<void>() : output_.append(ready);
}

void CollectJob::tell_progress() {
  if (!listener_.progress) return;
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_);
  listener_.progress(ready_ ? fmt::format("{}/{}, reward {:.3f}", summary_.episodes, count_of(request_.episodes, "episode"),
                                          summary_.mean_reward)
                            : "loading the model",
                     elapsed);
}

Result<void> CollectJob::on_event(const wire::Event& event) {
  if (std::holds_alternative<wire::Ready>(event.body) && !ready_) {
    ready_ = true;
    if (auto begun = output_.begin(); !begun) return begun;
  }
  if (const auto* result = std::get_if<wire::TaskResult>(&event.body))
    if (auto taken = take(*result); !taken) return taken;
  tell_progress();
  return {};
}

}  // namespace muster::job

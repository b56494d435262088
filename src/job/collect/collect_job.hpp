// Episodes that ranks play: requests down as soon as an answer makes the next one known, trajectories out in their order.
#pragma once

#include <deque>
#include <map>
#include <mutex>

#include "environment/step_threads.hpp"
#include "job/collect/collect.hpp"
#include "job/collect/trajectory.hpp"
#include "job/generate/line_output.hpp"
#include "job/generate/ordered_results.hpp"
#include "system/file_descriptor.hpp"

namespace muster::job {

class CollectJob final : public WorkerListener {
 public:
  CollectJob(const CollectRequest& request, const CollectPlan& plan, const environment::Environment& environment,
             LineOutput output, CollectListener listener);

  Result<void> on_event(const wire::Event& event) override;
  Result<wire::NextRequest> next_request(int rank) override;
  std::optional<int> input() override { return stepped_call_.number(); }

  CollectSummary summary() const { return summary_; }

 private:
  using Clock = std::chrono::steady_clock;
  Result<void> take(const wire::TaskResult& result);
  // What threads have stepped since.
  Result<void> take_stepped();
  Result<void> end(std::int64_t episode);
  Result<std::optional<std::int64_t>> next_episode();
  void tell_progress();
  std::int64_t index_of(std::int64_t episode, std::int64_t turn) const { return episode * options_.turns + turn; }

  const CollectRequest& request_;
  const CollectPlan& plan_;
  const environment::Environment& environment_;
  spec::EnvironmentOptions options_;
  LineOutput output_;
  CollectListener listener_;
  std::map<std::int64_t, Trajectory> live_;     // by episode; a thread's alone while it steps it
  std::deque<std::int64_t> waiting_;            // episodes with an answer, whose next request nobody has yet
  std::map<std::int64_t, int> holders_;         // by request: the rank that answers it
  std::int64_t begun_ = 0;                      // episodes
  OrderedResults lines_;
  double rewards_ = 0;
  CollectSummary summary_;
  bool ready_ = false;
  Clock::time_point started_ = Clock::now();
  FileDescriptor stepped_call_;  // readable where there is something in stepped_
  std::mutex stepped_mutex_;
  std::vector<std::int64_t> stepped_;  // episodes whose last answer the environment has taken
  std::optional<environment::StepThreads> threads_;  // the last member: they use others. From the first answer on: before, this process forks
};

}  // namespace muster::job

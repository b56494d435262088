#include "data/batch_loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace muster::data {
namespace {

// One sample of each unit.
std::vector<Unit> samples_of(std::span<const Unit> units, std::size_t number) {
  std::vector<Unit> alone;
  for (const Unit& unit : units) alone.push_back({unit.at(number)});
  return alone;
}

LoadedStep load(const Dataset& dataset, const StepUnits& step, const RankPlace& place, bool second_apart) {
  LoadedStep loaded;
  loaded.begin = step.begin;
  loaded.end = step.end;
  loaded.totals = totals_of(step, dataset);
  loaded.epochs = static_cast<double>(step.begin.epoch) +
                  static_cast<double>(step.begin.unit + loaded.totals.units) /
                      static_cast<double>(std::max<std::int64_t>(step.epoch_units, 1));
  loaded.rows = computed_rows(step, dataset);
  for (const auto& units : share(step.units, place)) {
    loaded.passes.push_back(make_micro_batch(dataset, second_apart ? samples_of(units, 0) : units));
    if (second_apart) loaded.scored.push_back(make_micro_batch(dataset, samples_of(units, 1)));
  }
  return loaded;
}

}  // namespace

// Steps queue up in their order: a thread puts an empty place at the end, and fills it later.
class BatchLoader::Line {
 public:
  Line(Dataset dataset, BatchSchedule schedule, RankPlace place, LoaderSettings settings)
      : dataset_(std::move(dataset)),
        schedule_(std::move(schedule)),
        place_(place),
        most_(static_cast<std::size_t>(std::max(settings.read_ahead, 1))),
        second_apart_(settings.second_apart) {
    for (int i = 0; i < settings.threads; ++i)
      threads_.emplace_back([this](std::stop_token stop) { work(std::move(stop)); });
  }

  LoadedStep next() {
    if (threads_.empty()) return load(dataset_, schedule_.next(), place_, second_apart_);
    std::unique_lock lock(gate_);
    changed_.wait(lock, [&] { return failure_ || (!line_.empty() && line_.front()->has_value()); });
    if (failure_) std::rethrow_exception(failure_);
    LoadedStep step = std::move(**line_.front());
    line_.pop_front();
    changed_.notify_all();
    return step;
  }

 private:
  using Place = std::optional<LoadedStep>;

  void work(const std::stop_token& stop) {
    try {
      while (!stop.stop_requested()) {
        std::unique_lock lock(gate_);
        if (!changed_.wait(lock, stop, [&] { return failure_ || line_.size() < most_; }) || failure_) return;
        const std::shared_ptr<Place> mine = std::make_shared<Place>();
        line_.push_back(mine);
        const StepUnits step = schedule_.next();
        lock.unlock();
        LoadedStep loaded = load(dataset_, step, place_, second_apart_);
        lock.lock();
        *mine = std::move(loaded);
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(gate_);
      if (!failure_) failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  Dataset dataset_;
  BatchSchedule schedule_;
  RankPlace place_;
  std::size_t most_;
  bool second_apart_;
  std::mutex gate_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Place>> line_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

BatchLoader::BatchLoader(Dataset dataset, BatchSchedule schedule, RankPlace place, LoaderSettings settings)
    : line_(std::make_unique<Line>(std::move(dataset), std::move(schedule), place, settings)) {}
BatchLoader::BatchLoader(BatchLoader&&) noexcept = default;
BatchLoader& BatchLoader::operator=(BatchLoader&&) noexcept = default;
BatchLoader::~BatchLoader() = default;

LoadedStep BatchLoader::next() { return line_->next(); }

}  // namespace muster::data

#include "schedule/simulation.hpp"

#include <algorithm>

namespace muster::schedule {

World as_predicted(std::optional<Duration> otherwise) {
  return [otherwise](const Scheduler& scheduler, const JobRecord& record) -> std::optional<Course> {
    const auto length = scheduler.expected_length(record.job, static_cast<int>(record.gpus.size()));
    if (!length && !otherwise) return std::nullopt;
    return Course{length.value_or(otherwise.value_or(Duration{})), Ended::How::exited, 0};
  };
}

Simulation::Simulation(Scheduler scheduler, World world) : scheduler_(std::move(scheduler)), world_(std::move(world)) {
  const auto& expected = scheduler_.running().expected();
  for (const auto& [end, job] : expected) {
    const JobRecord& record = scheduler_.jobs().at(job);
    open_[job] = runs_.size();
    runs_.push_back({job, record.gpus, *record.started, {}, record.attempts, false});
    planned_.emplace(std::max(end, scheduler_.now()), Planned{Ended{record.job.id}, std::pair(job, record.attempts)});
  }
}

void Simulation::at(Time time, Happening what) { planned_.emplace(time, Planned{std::move(what), {}}); }

bool Simulation::is_void(const Planned& planned) const {
  if (!planned.attempt) return false;
  const JobRecord& record = scheduler_.jobs().at(planned.attempt->first);
  return !has_gpus(record.state) || record.attempts != planned.attempt->second;
}

bool Simulation::step() {
  while (!planned_.empty() && is_void(planned_.begin()->second)) planned_.erase(planned_.begin());
  const auto deadline = scheduler_.next_deadline();
  if (planned_.empty() && !deadline) return false;
  if (planned_.empty() || (deadline && *deadline < planned_.begin()->first)) {
    apply({*deadline, Tick{}});
    return true;
  }
  auto next = planned_.extract(planned_.begin());
  apply({next.key(), std::move(next.mapped().what)});
  return true;
}

void Simulation::apply(const Event& event) {
  auto decisions = scheduler_.apply(event);
  if (!decisions) {
    refused_.push_back(decisions.error());
    return;
  }
  if (const auto* ended = std::get_if<Ended>(&event.what)) {
    const auto open = open_.extract(*scheduler_.jobs().find(ended->job));
    if (open) {
      runs_[open.mapped()].end = scheduler_.now();
      runs_[open.mapped()].succeeded = ended->succeeded();
    }
  }
  for (const Decision& decision : *decisions) {
    if (const auto* start = std::get_if<Start>(&decision)) follow(*start);
    if (const auto* stop = std::get_if<Stop>(&decision)) {
      const JobIndex job = *scheduler_.jobs().find(stop->job);
      planned_.emplace(scheduler_.now(), Planned{Ended{stop->job, Ended::How::killed, 15},
                                                 std::pair(job, scheduler_.jobs().at(job).attempts)});
    }
  }
  journal_.push_back(event);
  decisions_.push_back(std::move(*decisions));
}

void Simulation::follow(const Start& start) {
  const JobIndex job = *scheduler_.jobs().find(start.job);
  open_[job] = runs_.size();
  runs_.push_back({job, start.gpus, scheduler_.now(), {}, start.attempt, false});
  if (const auto course = world_(scheduler_, scheduler_.jobs().at(job)))
    planned_.emplace(scheduler_.now() + course->length,
                     Planned{Ended{start.job, course->how, course->code}, std::pair(job, start.attempt)});
}

}  // namespace muster::schedule

#include "schedule/why.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "schedule/schedule_text.hpp"
#include "schedule/simulation.hpp"

namespace muster::schedule {
namespace {

constexpr std::size_t most_named = 5;

std::optional<Time> expected_start(const Scheduler& scheduler, JobIndex job) {
  Simulation future(scheduler, as_predicted());
  do {
    const JobRecord& record = future.scheduler().jobs().at(job);
    if (has_gpus(record.state)) return record.started;
    if (is_settled(record.state)) return std::nullopt;
  } while (future.step());
  return std::nullopt;
}

Why::Gpus gpus_of(const Scheduler& scheduler, const JobRecord& record) {
  const GpuPool& pool = scheduler.gpus();
  Why::Gpus gpus{record.job.gpus.minimum, pool.free(), pool.size(), {}, {}, {}};
  for (std::size_t position = 0; position < pool.all().size(); ++position) {
    const GpuStatus& gpu = pool.all()[position];
    const GpuNumber place{static_cast<int>(position)};
    if (gpu.state == GpuState::held || gpu.state == GpuState::lost)
      gpus.set_aside.push_back({place, gpu.name, gpu.state, gpu.words});
    if (gpu.state != GpuState::taken) continue;
    const JobRecord& holder = scheduler.jobs().at(*gpu.job);
    auto known = std::ranges::find(gpus.holders, holder.job.id, &Why::Holder::job);
    if (known == gpus.holders.end()) known = gpus.holders.insert(known, {holder.job.id, {}, holder.expected_end});
    known->gpus.push_back(place);
  }
  gpus.avoided = record.avoided;
  std::ranges::sort(gpus.avoided);
  return gpus;
}

// Running jobs that may keep it waiting and whose end is unknown: those it comes after, if any of them is one; for a
// ready job those that have what it wants, GPUs or one of the places for jobs without.
std::vector<JobId> unpredicted_before(const Scheduler& scheduler, const JobRecord& record) {
  std::vector<JobId> awaited, others;
  for (const JobIndex index : scheduler.running().unexpected()) {
    const JobId& id = scheduler.jobs().at(index).job.id;
    if (std::ranges::any_of(record.dependencies, [&](const Dependency& one) { return one.job == index; }))
      awaited.push_back(id);
    else if (record.state != JobState::ready ||
             scheduler.jobs().at(index).gpus.empty() == (record.job.gpus.minimum == 0))
      others.push_back(id);
  }
  std::vector<JobId>& found = awaited.empty() ? others : awaited;
  found.resize(std::min(found.size(), most_named));
  return found;
}

std::string in(Time moment, Time now) {
  if (moment <= now) return "now";
  return moment - now < std::chrono::seconds(1) ? "in less than 1 s" : fmt::format("in {}", to_string(moment - now));
}

std::string names(const std::vector<JobId>& ids) {
  std::vector<std::string> texts;
  for (const JobId& id : ids) texts.push_back(id.text);
  return join(texts, ", ");
}

// By number, as muster queue lists them.
std::string spoken(const std::vector<GpuNumber>& gpus) {
  return fmt::format("GPU{} {}", gpus.size() == 1 ? "" : "s", gpu_list(gpus));
}

// With its name, by which others know it, if that is different.
std::string spoken(const Why::SetAside& gpu) {
  const std::string digits = std::to_string(number(gpu.gpu));
  return gpu.name == digits ? fmt::format("GPU {}", digits) : fmt::format("GPU {} ({})", digits, gpu.name);
}

std::string gpu_lines(const Why::Gpus& gpus, Time now) {
  std::string text =
      fmt::format("wants {} GPU{}; {} of {} free\n", gpus.wanted, gpus.wanted == 1 ? "" : "s", gpus.free, gpus.all);
  for (const Why::Holder& holder : gpus.holders)
    text +=
        fmt::format("  {} has {}, {}\n", holder.job.text, spoken(holder.gpus),
                    !holder.expected_end          ? std::string("end time unknown")
                    : *holder.expected_end <= now ? "and should have ended"
                                                  : fmt::format("for {} more", to_string(*holder.expected_end - now)));
  for (const Why::SetAside& gpu : gpus.set_aside)
    text +=
        fmt::format("  {} {} {}\n", spoken(gpu), gpu.state == GpuState::held ? "is held by" : "is lost:", gpu.words);
  if (!gpus.avoided.empty()) text += fmt::format("  it failed on {} and waits for others\n", spoken(gpus.avoided));
  return text;
}

std::string start_line(const Why& why) {
  if (why.expected_start) return fmt::format("expected to begin {}\n", in(*why.expected_start, why.now));
  if (why.gpus) {
    const int set_aside = static_cast<int>(why.gpus->set_aside.size());
    if (const int usable = why.gpus->all - set_aside; usable < why.gpus->wanted)
      return set_aside == 1 ? std::string("it begins when the GPU that is held or lost is back\n")
                            : fmt::format("it begins when {} of the {} GPUs that are held or lost are back\n",
                                          why.gpus->wanted - usable, set_aside);
  }
  if (why.unpredicted.empty()) return "start time unknown: not every job before it has a prediction\n";
  return fmt::format("start time unknown: {} {} no prediction\n", names(why.unpredicted),
                     why.unpredicted.size() == 1 ? "has" : "have");
}

}  // namespace

Result<Why> why(const Scheduler& scheduler, const JobId& id) {
  const auto job = scheduler.jobs().find(id);
  if (!job) return Error{Error::Kind::bad_input, fmt::format("there is no job {}", id.text), ""};
  const JobRecord& record = scheduler.jobs().at(*job);
  Why why;
  why.job = id;
  why.state = record.state;
  why.now = scheduler.now();
  why.reason = record.reason;
  if (is_settled(record.state) || has_gpus(record.state)) return why;
  for (const Dependency& dependency : record.dependencies)
    if (const JobRecord& other = scheduler.jobs().at(dependency.job); !is_settled(other.state))
      why.awaited.push_back({other.job.id, other.state, dependency.needs_success});
  if (record.state == JobState::ready)
    why.pause = scheduler.pauses().machine           ? scheduler.pauses().machine
                : record.job.gpus.minimum > 0 ? scheduler.pauses().gpus
                                              : std::nullopt;
  if (record.state == JobState::ready && record.job.gpus.minimum > 0) {
    why.gpus = gpus_of(scheduler, record);
    why.ahead = scheduler.count_before(*job);
    for (const JobIndex other : scheduler.before(*job, most_named))
      why.first_ahead.push_back(scheduler.jobs().at(other).job.id);
  }
  if (const auto reservation = scheduler.reservation()) {
    why.reserved_for = scheduler.jobs().at(reservation->job).job.id;
    why.reserved_start = reservation->expected;
  }
  if (record.state == JobState::ready && record.job.gpus.minimum == 0)
    why.without_gpus = scheduler.rules().without_gpus;
  why.unpredicted = unpredicted_before(scheduler, record);
  why.expected_start = expected_start(scheduler, *job);
  return why;
}

std::string to_text(const Why& why) {
  std::string text = fmt::format("{} is {}\n", why.job.text, name(why.state));
  if (!why.reason.empty()) text += fmt::format("{}\n", why.reason);
  if (is_settled(why.state) || has_gpus(why.state)) return text;
  for (const Why::Awaited& awaited : why.awaited)
    text += fmt::format("waits until {} has {}; it is {}\n", awaited.job.text,
                        awaited.needs_success ? "succeeded" : "ended", name(awaited.state));
  if (why.pause)
    text += fmt::format("it could not be started, and is tried again {}: {}\n", in(why.pause->until, why.now),
                        why.pause->reason);
  if (why.gpus) {
    text += gpu_lines(*why.gpus, why.now);
    text += why.ahead == 0 ? "first in the line\n"
                           : fmt::format("{} before it in the line: {}{}\n", why.ahead, names(why.first_ahead),
                                         why.ahead > why.first_ahead.size() ? ", …" : "");
    if (why.reserved_for && *why.reserved_for == why.job)
      text += "free GPUs are kept for it; only jobs that end before it begins, or use what it leaves, go first\n";
    else if (why.reserved_for)
      text += fmt::format("free GPUs are kept for {}{}\n", why.reserved_for->text,
                          why.reserved_start ? fmt::format(", which begins {}", in(*why.reserved_start, why.now)) : "");
  }
  if (why.without_gpus)
    text += fmt::format("wants no GPU; {} such jobs run at a time, and others began before it\n", *why.without_gpus);
  return text + start_line(why);
}

}  // namespace muster::schedule

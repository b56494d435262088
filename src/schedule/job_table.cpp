#include "schedule/job_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/text.hpp"

namespace muster::schedule {

std::string_view name(JobState state) {
  switch (state) {
    case JobState::waiting:
      return "waiting";
    case JobState::ready:
      return "ready";
    case JobState::running:
      return "running";
    case JobState::stopping:
      return "stopping";
    case JobState::succeeded:
      return "succeeded";
    case JobState::failed:
      return "failed";
    case JobState::skipped:
      return "skipped";
    case JobState::cancelled:
      return "cancelled";
  }
  return "";
}

// Checks everything that is submitted together before any of it is accepted.
class Admission {
 public:
  Admission(const JobTable& table, int gpus) : table_(table), gpus_(gpus) {}

  void look_at(const Job& job) {
    job_ = &job;
    if (job.id.text.empty()) note("a job has no id", "give each job an id of its own");
    if (is_known(job.id)) note("this id is taken", "ids are used once; choose another");
    for (const std::string* text : {&job.id.text, &job.label, &job.kind, job.chain ? &job.chain->name : &job.kind})
      if (!is_utf8(*text)) note("one of its names is not UTF-8", "ids, labels, kinds and chains are text");
    look_at_wish();
    look_at_numbers();
    for (const auto* list : {&job.after, &job.after_ok})
      for (const JobId& other : *list)
        if (!is_known(other) || other == job.id)
          note(fmt::format("it comes after {}, which no job before it is called", other.text),
               "submit what it depends on before it, or earlier in the same list");
    if (job.chain) look_at_chain(*job.chain);
    ids_.insert(job.id.text);
  }

  const std::vector<Problem>& problems() const { return problems_; }

 private:
  void note(std::string what, std::string remedy) {
    problems_.push_back({fmt::format("job {}", job_->id.text), std::move(what), std::move(remedy)});
  }
  bool is_known(const JobId& id) const { return ids_.contains(id.text) || table_.find(id).has_value(); }

  void look_at_wish() {
    const GpuRequest& request = job_->gpus;
    if (request.minimum < 0 || request.minimum > most_gpus || request.most() > most_gpus)
      note(fmt::format("it wants {} to {} GPUs", request.minimum, request.most()), "0 to a million are accepted");
    else if (request.most() < request.minimum)
      note(fmt::format("it wants at least {} and at most {} GPUs", request.minimum, request.most()),
           "the first may not be above the second");
    else if (request.minimum == 0 && request.most() > 0)
      note(fmt::format("it wants 0 to {} GPUs", request.most()), "a job wants none, or at least one");
    else if (request.minimum > gpus_)
      note(fmt::format("it wants {} GPU{}, there {} {}", request.minimum, request.minimum == 1 ? "" : "s",
                       gpus_ == 1 ? "is" : "are", gpus_),
           fmt::format("ask for at most {}", gpus_));
  }

  void look_at_numbers() {
    if (job_->priority < lowest_priority || job_->priority > highest_priority)
      note(fmt::format("its priority is {}", job_->priority),
           fmt::format("{} to {} are accepted", lowest_priority, highest_priority));
    if (job_->retries < 0 || job_->retries > most_retries)
      note(fmt::format("it has {} retries", job_->retries), fmt::format("0 to {} are accepted", most_retries));
    look_at_span("timeout", job_->timeout);
    look_at_span("heartbeat", job_->heartbeat);
    look_at_span("prediction", job_->prediction);
  }

  void look_at_span(std::string_view what, const std::optional<Duration>& span) {
    if (span && (*span <= Duration::zero() || *span > longest_span))
      note(fmt::format("its {} is {} ms", what, span->count()), "more than nothing and at most ten years are accepted");
  }

  void look_at_chain(const ChainPlace& place) {
    auto known = rounds_.find(place.name);
    if (known == rounds_.end())
      if (const auto chain = table_.chains_.find(place.name); chain != table_.chains_.end())
        known = rounds_.emplace(place.name, chain->second.round).first;
    if (place.round < 1)
      note(fmt::format("it is round {} of chain {}", place.round, place.name), "rounds count from 1");
    if (known != rounds_.end() && place.round != known->second && place.round != known->second + 1)
      note(fmt::format("it is round {} of chain {}, whose last round is {}", place.round, place.name, known->second),
           "submit the rounds of a chain in their order, none left out");
    rounds_[place.name] = place.round;
  }

  const JobTable& table_;
  int gpus_;
  const Job* job_ = nullptr;
  std::unordered_set<std::string> ids_;
  std::unordered_map<std::string, int> rounds_;
  std::vector<Problem> problems_;
};

Result<std::vector<JobIndex>> JobTable::add(std::span<const Job> jobs, int gpus, const Duration& ageing, Time now) {
  Admission admission(*this, gpus);
  for (const Job& job : jobs) admission.look_at(job);
  if (!admission.problems().empty()) return to_error(admission.problems());
  std::vector<JobIndex> added;
  added.reserve(jobs.size());
  for (const Job& job : jobs) {
    added.push_back(JobIndex{static_cast<std::uint32_t>(records_.size())});
    add(job, ageing, now);
  }
  return added;
}

void JobTable::add(const Job& job, const Duration& ageing, Time now) {
  const JobIndex index{static_cast<std::uint32_t>(records_.size())};
  JobRecord record;
  record.job = job;
  record.submitted = now;
  record.rank = {now - job.priority * ageing, 1, index};
  for (const JobId& other : job.after) record.dependencies.push_back({*find(other), false});
  for (const JobId& other : job.after_ok) record.dependencies.push_back({*find(other), true});
  if (job.chain) {
    place_in_chain(record, index);
  } else {
    record.strand = strands_.size();
    strands_.emplace_back();
  }
  for (const Dependency& dependency : record.dependencies) {
    if (!is_settled(at(dependency.job).state)) ++record.unmet;
    at(dependency.job).dependants.push_back({index, dependency.needs_success});
  }
  change_strand(record.strand, 0, job.gpus.is_elastic() ? 1 : 0);
  by_id_.emplace(job.id.text, index);
  records_.push_back(std::move(record));
}

Result<void> JobTable::restore(std::span<const JobRecord> jobs, int gpus, const Duration& ageing) {
  Admission admission(*this, gpus);
  for (const JobRecord& saved : jobs) admission.look_at(saved.job);
  if (!admission.problems().empty()) return to_error(admission.problems());
  for (const JobRecord& saved : jobs) {
    const JobIndex index{static_cast<std::uint32_t>(records_.size())};
    add(saved.job, ageing, saved.submitted);
    JobRecord& record = at(index);
    JobRecord restored = saved;
    restored.rank = record.rank;
    restored.rank.left = saved.rank.left;
    restored.dependencies = std::move(record.dependencies);
    restored.dependants = std::move(record.dependants);
    restored.unmet = record.unmet;
    restored.strand = record.strand;
    record = std::move(restored);
    if (is_settled(record.state))
      was_settled(index, false);
    else if (record.state != JobState::waiting)
      change_strand(record.strand, 1, 0);
  }
  return {};
}

// Those that none of the others waits for: when they have succeeded, all have.
std::vector<JobIndex> JobTable::last_of(const std::vector<JobIndex>& round) const {
  std::vector<JobIndex> last;
  for (const JobIndex job : round)
    if (std::ranges::none_of(at(job).dependants, [&](const Dependency& dependant) {
          return dependant.needs_success && std::ranges::find(round, dependant.job) != round.end();
        }))
      last.push_back(job);
  return last;
}

void JobTable::place_in_chain(JobRecord& record, JobIndex index) {
  const auto [found, is_new] = chains_.try_emplace(record.job.chain->name);
  Chain& chain = found->second;
  if (is_new) {
    chain.strand = strands_.size();
    strands_.emplace_back();
  }
  if (record.job.chain->round != chain.round) {
    chain.round = record.job.chain->round;
    chain.of_before = last_of(std::exchange(chain.of_round, {}));
  }
  // A job that comes after another of its round waits for the round before through that one.
  const bool follows = std::ranges::any_of(record.dependencies, [&](const Dependency& dependency) {
    return dependency.needs_success && std::ranges::find(chain.of_round, dependency.job) != chain.of_round.end();
  });
  if (!follows)
    for (const JobIndex before : chain.of_before)
      if (std::ranges::none_of(record.dependencies, [&](const Dependency& dependency) {
            return dependency.job == before && dependency.needs_success;
          }))
        record.dependencies.push_back({before, true});
  chain.of_round.push_back(index);
  ++chain.left;
  record.strand = chain.strand;
}

std::optional<JobIndex> JobTable::find(const JobId& id) const {
  const auto found = by_id_.find(id.text);
  if (found == by_id_.end()) return std::nullopt;
  return found->second;
}

void JobTable::became_ready(JobIndex job) {
  JobRecord& record = at(job);
  if (record.job.chain) record.rank.left = chains_.find(record.job.chain->name)->second.left;
  change_strand(record.strand, 1, 0);
}

void JobTable::was_settled(JobIndex job, bool was_live) {
  const JobRecord& record = at(job);
  if (record.job.chain) --chains_.find(record.job.chain->name)->second.left;
  change_strand(record.strand, was_live ? -1 : 0, record.job.gpus.is_elastic() ? -1 : 0);
}

void JobTable::change_strand(std::size_t strand, int live, int elastic) {
  Strand& changed = strands_[strand];
  if (changed.grows()) --growing_;
  changed.live += live;
  changed.elastic_left += elastic;
  if (changed.grows()) ++growing_;
}

}  // namespace muster::schedule

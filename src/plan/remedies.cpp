// What would make a refused question fit. Every remedy is planned like the question itself; those that fit stay.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "base/byte_count.hpp"
#include "base/text.hpp"
#include "plan/plan_parts.hpp"
#include "plan/remedy_changes.hpp"

namespace muster::plan {
namespace {

constexpr std::size_t enough = 4;         // remedies that a reader will look at
constexpr std::size_t a_choice = 2;       // the fewest remedies that are wanted
constexpr std::size_t most_together = 4;  // changes in one remedy
constexpr std::size_t most_tries = 1500;  // plans made in one search: some hundredths of a second
// What a host is assumed to have at most, if its memory is not known.
constexpr std::int64_t largest_host = std::int64_t{2} << 40;

// From this cost on, a change is the point of a remedy; smaller ones only help it.
constexpr int large_change = 4;

bool contradict(const Change& a, const Change& b) {
  for (const SettingChange& left : a.settings)
    for (const SettingChange& right : b.settings)
      if (left.key == right.key && left.value != right.value) return true;
  return false;
}

// Changes of different families, made together.
struct Combination {
  std::vector<const Change*> changes;
  std::uint64_t families = 0;        // bit i: one of the i-th family
  std::uint64_t large_families = 0;  // those whose change is a large one
  int cost = 0;

  // The families that are its point.
  std::uint64_t theme() const { return large_families != 0 ? large_families : families; }
  bool allows(const Change& more) const {
    return std::ranges::none_of(changes, [&](const Change* one) { return contradict(*one, more); });
  }
  Combination with(const Change& more, std::size_t family) const {
    Combination larger = *this;
    larger.changes.push_back(&more);
    larger.families |= std::uint64_t{1} << family;
    if (more.cost >= large_change) larger.large_families |= std::uint64_t{1} << family;
    larger.cost += more.cost;
    return larger;
  }
};

// Tries combinations in order of cost. One that has all the large changes of a remedy that was found
// before is skipped: that one is cheaper, and says the same. If that leaves too few to choose from, only those are
// skipped that have all of its changes.
class Search {
 public:
  explicit Search(const Question& question) : question_(question), families_(possible_changes(question)) {}

  std::vector<Remedy> remedies() {
    const std::vector<Combination> combinations = in_order_of_cost();
    try_each(combinations, &Combination::theme, enough);
    if (!found_.empty()) try_each(combinations, &Combination::families, a_choice);
    return std::move(found_);
  }

 private:
  // likeness: the families of a remedy that make a combination count as similar to it.
  template <class Likeness>
  void try_each(const std::vector<Combination>& combinations, Likeness likeness, std::size_t wanted) {
    for (const Combination& combination : combinations) {
      if (found_.size() >= wanted || tries_ >= most_tries) return;
      const bool is_known = std::ranges::any_of(taken_, [&](const Combination& one) {
        const std::uint64_t known = std::invoke(likeness, one);
        return (combination.families & known) == known;
      });
      if (is_known || !can_fit(combination.families) || !fits(combination)) continue;
      add(combination);
    }
  }

  std::vector<Combination> in_order_of_cost() const {
    std::vector<Combination> all;
    extend(Combination{}, 0, all);
    std::ranges::stable_sort(all, {}, [](const Combination& one) { return std::pair(one.cost, one.changes.size()); });
    return all;
  }

  void extend(const Combination& begun, std::size_t first, std::vector<Combination>& all) const {
    if (begun.changes.size() == most_together) return;
    for (std::size_t family = first; family < families_.size(); ++family)
      for (const Change& change : families_[family]) {
        if (!begun.allows(change)) continue;
        const Combination larger = begun.with(change, family);
        all.push_back(larger);
        extend(larger, family + 1, all);
      }
  }

  // Whether the largest changes of these families are enough. If not, no smaller ones are tried.
  bool can_fit(std::uint64_t families) {
    if (hopeless_.contains(families)) return false;
    if (hopeful_.contains(families)) return true;
    Combination largest;
    for (std::size_t i = 0; i < families_.size(); ++i)
      if ((families >> i & 1) != 0 && largest.allows(families_[i].back()))
        largest = largest.with(families_[i].back(), i);
    const bool complete = largest.families == families;  // otherwise the largest contradict each other
    const bool possible = !complete || fits(largest);
    (possible ? hopeful_ : hopeless_).insert(families);
    return possible;
  }

  std::optional<Plan> planned(const Combination& combination, Detail detail) const {
    Question tried = question_;
    tried.detail = detail;
    for (const Change* change : combination.changes) change->apply(tried);
    auto plan = tried.workload.work == Work::training ? plan_training(tried) : plan_inference(tried);
    if (!plan || !plan->fits()) return std::nullopt;
    if (!question_.host_memory && host_bytes(*plan) > largest_host) return std::nullopt;
    return std::move(*plan);
  }
  bool fits(const Combination& combination) {
    ++tries_;
    return planned(combination, Detail::verdict).has_value();
  }

  void add(const Combination& combination) {
    const auto plan = planned(combination, Detail::plan);
    if (!plan) return;
    Remedy remedy;
    for (const Change* change : combination.changes) {
      remedy.change += (remedy.change.empty() ? "" : "; ") + change->what;
      if (!change->missing.empty()) remedy.missing.push_back(change->missing);
      for (const SettingChange& setting : change->settings) {
        std::erase_if(remedy.settings, [&](const SettingChange& earlier) { return earlier.key == setting.key; });
        remedy.settings.push_back(setting);
      }
    }
    for (const RankPlan& rank : plan->ranks) remedy.peak = std::max(remedy.peak, rank.memory.peak());
    remedy.host = host_bytes(*plan);
    remedy.change += conditions(remedy);
    taken_.push_back(combination);
    found_.push_back(std::move(remedy));
  }

  // What a reader has to know before taking it.
  std::string conditions(const Remedy& remedy) const {
    std::string words;
    if (remedy.host > 0)
      words += fmt::format(" ({} of host memory{})", to_string(ByteCount{remedy.host}),
                           question_.host_memory ? "" : "; how much is free there is not known");
    if (!remedy.missing.empty())
      words += fmt::format(" (for scripts of your own: muster itself has no {} yet)", join(remedy.missing, " and "));
    return words;
  }

  const Question& question_;
  std::vector<Family> families_;
  std::set<std::uint64_t> hopeful_, hopeless_;
  std::size_t tries_ = 0;
  std::vector<Combination> taken_;  // the remedies that were found
  std::vector<Remedy> found_;
};

}  // namespace

std::vector<Remedy> find_remedies(const Question& question) { return Search(question).remedies(); }

}  // namespace muster::plan

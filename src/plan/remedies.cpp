// What would make a refused question fit. Every remedy is planned like the question itself; those that fit stay.
#include <algorithm>

#include "plan/plan_parts.hpp"
#include "plan/remedy_changes.hpp"

namespace muster::plan {
namespace {

constexpr std::size_t enough = 4;  // remedies a reader looks at
constexpr std::size_t wanted = 2;  // below this, changes are combined

bool contradict(const Change& a, const Change& b) {
  for (const OptionChange& left : a.options)
    for (const OptionChange& right : b.options)
      if (left.option == right.option && left.value != right.value) return true;
  return false;
}

class Search {
 public:
  explicit Search(const Question& question) : question_(question), families_(possible_changes(question)) {}

  // Single changes first, then pairs, then as many as it takes.
  std::vector<Remedy> remedies() {
    for (const Family& family : families_)
      if (found_.size() < enough) add_single(family);
    add_pairs();
    for (std::size_t banned = 0; banned <= short_alone_.size() && found_.size() < wanted; ++banned)
      add_combination(banned == 0 ? nullptr : &short_alone_[short_alone_.size() - banned]);
    return std::move(found_);
  }

 private:
  using Changes = std::vector<const Change*>;

  std::optional<Plan> planned(const Changes& changes, Detail detail) const {
    Question tried = question_;
    tried.detail = detail;
    for (const Change* change : changes) change->apply(tried);
    auto plan = tried.workload.work == Work::training ? plan_training(tried) : plan_inference(tried);
    if (!plan || !plan->fits()) return std::nullopt;
    return std::move(*plan);
  }
  bool fits(const Changes& changes) const { return planned(changes, Detail::verdict).has_value(); }

  void add(const Changes& changes) {
    const auto plan = planned(changes, Detail::plan);
    if (!plan) return;
    Remedy remedy;
    for (const Change* change : changes) {
      remedy.change += (remedy.change.empty() ? "" : "; ") + change->what;
      for (const OptionChange& option : change->options) {
        std::erase_if(remedy.options, [&](const OptionChange& earlier) { return earlier.option == option.option; });
        remedy.options.push_back(option);
      }
    }
    for (const RankPlan& rank : plan->ranks) remedy.peak = std::max(remedy.peak, rank.memory.peak());
    const bool known = std::ranges::any_of(found_, [&](const Remedy& one) { return one.change == remedy.change; });
    if (!known) found_.push_back(std::move(remedy));
  }

  // The smallest change that is enough; those smaller than it may be with others.
  void add_single(const Family& family) {
    const auto first = std::ranges::find_if(family, [this](const Change& change) { return fits({&change}); });
    if (first != family.end()) add({&*first});
    if (first != family.begin()) short_alone_.emplace_back(family.begin(), first);
  }

  // Of two families the smallest changes that fit together. Looked for only where the largest do.
  void add_pairs() {
    for (std::size_t i = 0; i < short_alone_.size(); ++i)
      for (std::size_t j = i + 1; j < short_alone_.size() && found_.size() < wanted; ++j) {
        Changes pair{&short_alone_[i].back(), &short_alone_[j].back()};
        if (contradict(*pair[0], *pair[1]) || !fits(pair)) continue;
        add(weakened(std::move(pair), {&short_alone_[i], &short_alone_[j]}));
      }
  }

  // Changes one after another until it fits; then without those that were not needed, and with smaller ones where those
  // do.
  void add_combination(const Family* banned) {
    Changes changes;
    std::vector<const Family*> from;
    for (const Family& family : short_alone_) {
      if (&family == banned) continue;
      const Change& largest = family.back();
      if (std::ranges::any_of(changes, [&](const Change* other) { return contradict(*other, largest); })) continue;
      changes.push_back(&largest);
      from.push_back(&family);
      if (!fits(changes)) continue;
      for (std::size_t i = changes.size(); i-- > 0;) {
        Changes fewer = changes;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        if (fewer.empty() || !fits(fewer)) continue;
        changes = std::move(fewer);
        from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
      }
      add(weakened(std::move(changes), from));
      return;
    }
  }

  // Each change as small as the others allow.
  Changes weakened(Changes changes, const std::vector<const Family*>& from) const {
    for (std::size_t i = 0; i < changes.size(); ++i)
      for (const Change& smaller : *from[i]) {
        Changes tried = changes;
        tried[i] = &smaller;
        if (!fits(tried)) continue;
        changes = std::move(tried);
        break;
      }
    return changes;
  }

  const Question& question_;
  std::vector<Family> families_;
  std::vector<Family> short_alone_;  // of each family, the changes that alone are not enough
  std::vector<Remedy> found_;
};

}  // namespace

std::vector<Remedy> find_remedies(const Question& question) { return Search(question).remedies(); }

}  // namespace muster::plan

#include "sweep/early_stop.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/bit_mix.hpp"

namespace muster::sweep {
namespace {

// Which ladder a trial climbs: determined by its id alone, so that every process agrees.
std::size_t ladder_of(const EarlyStop& rule, std::string_view trial) {
  std::uint64_t bits = 0;
  for (const char letter : trial) bits = mix_bits(bits ^ static_cast<unsigned char>(letter)) + 1;
  return static_cast<std::size_t>(
      bounded(mix_bits(bits), static_cast<std::uint64_t>(std::max<std::int64_t>(1, rule.ladders))));
}

// The first score of each trial of the ladder at or after a step.
std::map<std::string, double, std::less<>> scores_at(const EarlyStop& rule, Goal goal, std::span<const Report> reports,
                                                     std::int64_t rung, std::size_t ladder) {
  std::map<std::string, double, std::less<>> scores;
  for (const Report& report : reports) {
    if (report.step < rung || ladder_of(rule, report.trial) != ladder) continue;
    const double score = oriented(goal, report.score);
    scores.emplace(report.trial, std::isnan(score) ? -std::numeric_limits<double>::infinity() : score);
  }
  return scores;
}

bool is_among_the_best(const EarlyStop& rule, const std::map<std::string, double, std::less<>>& scores, double own) {
  if (own == -std::numeric_limits<double>::infinity()) return false;
  const auto count = static_cast<double>(scores.size());
  if (count < rule.eta) return true;
  const auto places = static_cast<std::size_t>(std::max(1.0, std::floor(count / rule.eta)));
  const auto better = std::ranges::count_if(scores, [own](const auto& entry) { return entry.second > own; });
  return static_cast<std::size_t>(better) < places;
}

}  // namespace

Verdict judge(const EarlyStop& rule, Goal goal, std::span<const Report> reports, std::string_view trial) {
  const std::size_t ladder = ladder_of(rule, trial);
  // The highest rung that the trial has reached; those below were judged when it reached them.
  for (std::size_t i = rule.rungs.size(); i-- > std::min(ladder, rule.rungs.size());) {
    const auto scores = scores_at(rule, goal, reports, rule.rungs[i], ladder);
    const auto own = scores.find(trial);
    if (own == scores.end()) continue;
    return is_among_the_best(rule, scores, own->second) ? Verdict::go_on : Verdict::stop;
  }
  return Verdict::go_on;
}

std::vector<std::int64_t> rungs_from_least(std::int64_t least, double eta, std::int64_t most) {
  std::vector<std::int64_t> rungs;
  for (auto rung = static_cast<double>(least); rung < static_cast<double>(most); rung *= eta) {
    const auto step = static_cast<std::int64_t>(std::llround(rung));
    if (rungs.empty() || step > rungs.back()) rungs.push_back(step);
  }
  return rungs;
}

std::vector<std::int64_t> rungs_below_most(std::int64_t most, double eta, std::int64_t count) {
  std::vector<std::int64_t> rungs;
  auto rung = static_cast<double>(most);
  for (std::int64_t i = 0; i < count; ++i) {
    rung /= eta;
    const auto step = static_cast<std::int64_t>(std::floor(rung));
    if (step < 1) break;
    rungs.insert(rungs.begin(), step);
  }
  rungs.erase(std::unique(rungs.begin(), rungs.end()), rungs.end());
  return rungs;
}

}  // namespace muster::sweep

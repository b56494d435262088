#include "gpu/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace muster::gpu {
namespace {

VisibleIndex visible(int position) { return static_cast<VisibleIndex>(position); }
const Candidate& at(std::span<const Candidate> candidates, int position) {
  return candidates[static_cast<std::size_t>(position)];
}

bool accepts_busy(const SelectionRequest& request) {
  return request.allow_busy || request.minimum_free || request.maximum_utilization;
}

// What keeps a candidate from being given out, in words; empty when nothing does. must_be_free: 0 when any amount will
// do.
std::string obstacle(const SelectionRequest& request, const Candidate& candidate, ByteCount must_be_free) {
  if (!candidate.uuid) return "lost: the driver cannot reach it";
  if (candidate.sickness && !request.allow_unhealthy) return "unhealthy: " + *candidate.sickness;
  if (candidate.holder && !request.allow_leased) return "leased by " + *candidate.holder;
  if (candidate.occupant && !accepts_busy(request)) return fmt::format("in use by {}, without a lease", *candidate.occupant);
  if (must_be_free > ByteCount{}) {
    if (!candidate.free) return "does not report its free memory";
    if (*candidate.free < must_be_free)
      return fmt::format("{} free, {} needed", to_string(*candidate.free), to_string(must_be_free));
  }
  if (request.maximum_utilization) {
    if (!candidate.utilization) return "does not report its utilisation";
    if (*candidate.utilization > *request.maximum_utilization)
      return fmt::format("{} % busy, at most {} % asked for", *candidate.utilization, *request.maximum_utilization);
  }
  return {};
}

// The same question without the words, for the common path.
bool qualifies(const SelectionRequest& request, const Candidate& candidate, ByteCount must_be_free) {
  return candidate.uuid && (!candidate.sickness || request.allow_unhealthy) &&
         (!candidate.holder || request.allow_leased) && (!candidate.occupant || accepts_busy(request)) &&
         (must_be_free == ByteCount{} || (candidate.free && *candidate.free >= must_be_free)) &&
         (!request.maximum_utilization ||
          (candidate.utilization && *candidate.utilization <= *request.maximum_utilization));
}

// For commands without --share: what runs inside a lease takes its GPUs as they are.
constexpr const char* hold_beside_others = "to use a busy GPU: muster gpus hold --gpu-ids N --free 8GiB -- muster …";

std::string counted(std::size_t count) { return fmt::format("{} GPU{}", count, count == 1 ? "" : "s"); }

// "GPU 0: 12.0 GiB free, 20.0 GiB needed", a line each.
std::string obstacles(const SelectionRequest& request, std::span<const Candidate> candidates, ByteCount must_be_free) {
  std::string lines;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string reason = obstacle(request, candidates[i], must_be_free);
    lines += fmt::format("\n  GPU {}: {}", i, reason.empty() ? "available" : reason);
  }
  return lines;
}

Error too_few(const SelectionRequest& request, std::span<const Candidate> candidates, std::size_t wanted,
              std::size_t found, ByteCount must_be_free) {
  if (candidates.empty())
    return {Error::Kind::refused, fmt::format("{} asked for, and no GPU is visible here", counted(wanted)),
            "muster doctor says why; --device cpu works without one"};
  std::vector<std::string> remedies;
  const auto any = [&](auto&& test) { return std::ranges::any_of(candidates, test); };
  const bool someone_holds = !request.allow_leased && any([](const Candidate& c) { return c.holder.has_value(); });
  const bool someone_uses = !accepts_busy(request) && any([](const Candidate& c) { return c.occupant.has_value(); });
  if ((someone_holds || someone_uses) && wanted <= candidates.size()) {
    if (request.offered.wait) remedies.emplace_back("wait for the others with --wait");
    if (request.offered.share) remedies.emplace_back("use GPUs beside others with --share");
    if (someone_uses && !request.offered.share) remedies.emplace_back(hold_beside_others);
  }
  if (must_be_free > ByteCount{}) remedies.emplace_back("ask for less free memory");
  if (found > 0)
    remedies.emplace_back(request.offered.up_to ? fmt::format("ask for {}, or for --up-to {}", found, wanted)
                                               : fmt::format("ask for {}", found));
  if (remedies.empty()) remedies.emplace_back("muster gpus shows who uses each one");
  return {Error::Kind::refused,
          fmt::format("{} asked for, {} available{}", counted(wanted), found,
                      obstacles(request, candidates, must_be_free)),
          join(remedies, "; ")};
}

std::string list_of_ids(std::span<const Candidate> candidates) {
  if (candidates.empty()) return "no GPU is visible here";
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < candidates.size(); ++i) ids.push_back(std::to_string(i));
  return "available: " + join(ids, ", ");
}

// The one that is called so; a beginning that several UUIDs have names none.
std::optional<VisibleIndex> find_named(const GpuName& name, std::span<const Candidate> candidates) {
  std::optional<VisibleIndex> found;
  for (int i = 0; i < std::ssize(candidates); ++i) {
    if (!name.is_of(visible(i), at(candidates, i).uuid)) continue;
    if (found) return std::nullopt;
    found = visible(i);
  }
  return found;
}

std::string remedy_for_named(const SelectionRequest& request) {
  std::vector<std::string> remedies{"name others"};
  if (request.offered.wait) remedies.emplace_back("wait with --wait");
  remedies.emplace_back(request.offered.share ? "use them beside others with --share" : hold_beside_others);
  return join(remedies, ", or ");
}

Result<std::vector<VisibleIndex>> select_by_ids(const SelectionRequest& request, std::span<const Candidate> candidates,
                                                ByteCount must_be_free) {
  std::vector<std::string> unknown;
  std::vector<VisibleIndex> chosen;
  for (const GpuName& id : request.ids) {
    const auto named = find_named(id, candidates);
    if (!named) {
      unknown.push_back(id.text());
    } else if (std::ranges::find(chosen, *named) != chosen.end()) {
      return Error{Error::Kind::bad_input, fmt::format("GPU {} is named twice", id.text()), "name each GPU once"};
    } else {
      chosen.push_back(*named);
    }
  }
  if (!unknown.empty())
    return Error{Error::Kind::bad_input,
                 fmt::format("no visible GPU {}; {}", join(unknown, ", "), list_of_ids(candidates)),
                 "ids count from 0 within CUDA_VISIBLE_DEVICES; muster gpus lists them"};
  if (request.count && static_cast<std::size_t>(*request.count) != chosen.size())
    return Error{Error::Kind::bad_input,
                 fmt::format("{} named, and {} asked for", counted(chosen.size()), *request.count),
                 "give the ids or the count, or make them agree"};
  std::string blocked;
  for (const VisibleIndex index : chosen)
    if (const std::string reason = obstacle(request, at(candidates, number(index)), must_be_free); !reason.empty())
      blocked += fmt::format("\n  GPU {}: {}", number(index), reason);
  if (!blocked.empty())
    return Error{Error::Kind::refused, "not all of the named GPUs are available" + blocked, remedy_for_named(request)};
  return chosen;
}

// How loaded a candidate is: busy or not, then coarse steps of memory, then of utilisation. Idle GPUs differ by a few
// MiB and are equals all the same.
std::int64_t load_level(const Candidate& candidate) {
  constexpr std::int64_t step = 512LL << 20;
  const std::int64_t busy = candidate.occupant ? std::int64_t{1} << 40U : 0;
  return busy + candidate.used.value_or(ByteCount{}).value / step * 16 + candidate.utilization.value_or(0) / 10;
}

struct Loaded {
  std::int64_t level;
  int position;
  auto operator<=>(const Loaded&) const = default;
};

// The count least loaded, emptiest first; among those that are equal at the end, the best connected.
std::vector<int> least_loaded(std::span<const Candidate> candidates, std::span<const int> qualified, std::size_t count,
                              const Topology& topology) {
  std::vector<Loaded> order;
  order.reserve(qualified.size());
  for (const int position : qualified) order.push_back({load_level(at(candidates, position)), position});
  std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(count) - 1);
  const std::int64_t last_level = order[count - 1].level;
  std::vector<Loaded> chosen;
  std::vector<int> equals;
  for (const Loaded& loaded : order) {
    if (loaded.level < last_level) chosen.push_back(loaded);
    if (loaded.level == last_level) equals.push_back(loaded.position);
  }
  std::ranges::sort(equals);
  for (const int position : topology.best_connected(equals, count - chosen.size()))
    chosen.push_back({last_level, position});
  std::ranges::sort(chosen);
  std::vector<int> positions;
  for (const Loaded& loaded : chosen) positions.push_back(loaded.position);
  return positions;
}

// The count best of the qualified: by load where asked for or where some are busy, and among equals by their links.
std::vector<VisibleIndex> best(const SelectionRequest& request, std::span<const Candidate> candidates,
                               std::span<const int> qualified, std::size_t count, const Topology& topology) {
  const bool by_load = request.least_loaded || std::ranges::any_of(qualified, [&](int position) {
                         return at(candidates, position).occupant.has_value();
                       });
  const std::vector<int> chosen = by_load ? least_loaded(candidates, qualified, count, topology)
                                                       : topology.best_connected(qualified, count);
  std::vector<VisibleIndex> indices;
  indices.reserve(chosen.size());
  for (const int position : chosen) indices.push_back(visible(position));
  return indices;
}

std::vector<int> qualified_candidates(const SelectionRequest& request, std::span<const Candidate> candidates,
                                      ByteCount must_be_free) {
  std::vector<int> qualified;
  qualified.reserve(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (qualifies(request, candidates[i], must_be_free)) qualified.push_back(static_cast<int>(i));
  return qualified;
}

// The smallest number of GPUs whose equal parts of the model each fit; one GPU if it fits one.
Result<std::vector<VisibleIndex>> select_for_model(const SelectionRequest& request,
                                                   std::span<const Candidate> candidates, const Topology& topology) {
  const double need = static_cast<double>(request.model->size.value) * request.model->margin;
  const ByteCount floor = request.minimum_free.value_or(ByteCount{});
  const std::size_t most = request.count ? static_cast<std::size_t>(*request.count) : candidates.size();
  for (std::size_t parts = request.count && !request.up_to ? most : 1; parts <= most; ++parts) {
    const ByteCount part{static_cast<std::int64_t>(std::ceil(need / static_cast<double>(parts)))};
    const std::vector<int> qualified = qualified_candidates(request, candidates, std::max(part, floor));
    if (qualified.size() >= parts) return best(request, candidates, qualified, parts, topology);
  }
  ByteCount together{};
  for (const int position : qualified_candidates(request, candidates, {}))
    together = together + at(candidates, position).free.value_or(ByteCount{});
  const ByteCount needed{static_cast<std::int64_t>(std::ceil(need))};
  const std::string shortfall =
      together < needed ? fmt::format("{} are missing", to_string(needed - together)) : "no equal split of it fits";
  return Error{Error::Kind::refused,
               fmt::format("{} with a margin of {} need {}; the available GPUs hold {} together: {}{}",
                           to_string(request.model->size), request.model->margin, to_string(needed),
                           to_string(together), shortfall, obstacles(request, candidates, floor)),
               "use a smaller or quantised model, a lower margin, or more GPUs"};
}

Result<void> check(const SelectionRequest& request) {
  const auto bad = [](std::string what, std::string remedy) {
    return Error{Error::Kind::bad_input, std::move(what), std::move(remedy)};
  };
  if (request.count && *request.count < 1)
    return bad(fmt::format("{} GPUs asked for", *request.count), "ask for 1 or more; --device cpu uses none");
  if (request.up_to && !request.count) return bad("up to how many GPUs is not said", "give the count");
  if (request.maximum_utilization && (*request.maximum_utilization < 0 || *request.maximum_utilization > 100))
    return bad(fmt::format("a utilisation of {} %", *request.maximum_utilization), "use 0 to 100");
  if (request.minimum_free && request.minimum_free->value < 0)
    return bad("a negative amount of free memory", "use 0 or more");
  if (request.model && (request.model->size.value <= 0 || !(request.model->margin > 0) || request.model->margin > 1000))
    return bad(fmt::format("a model of {} with a margin of {}", to_string(request.model->size), request.model->margin),
               "give a positive size and a margin such as 1.5");
  return {};
}

}  // namespace

Result<std::vector<VisibleIndex>> select(const SelectionRequest& request, std::span<const Candidate> candidates,
                                         const Topology& topology) {
  if (auto checked = check(request); !checked) return checked.error();
  const ByteCount must_be_free = request.minimum_free.value_or(ByteCount{});
  if (!request.ids.empty()) return select_by_ids(request, candidates, must_be_free);
  if (request.model) return select_for_model(request, candidates, topology);
  const std::vector<int> qualified = qualified_candidates(request, candidates, must_be_free);
  const std::size_t wanted =
      request.count ? static_cast<std::size_t>(*request.count) : std::max<std::size_t>(1, qualified.size());
  if (qualified.size() >= wanted) return best(request, candidates, qualified, wanted, topology);
  if (request.up_to && !qualified.empty()) {
    const std::size_t found = qualified.size();
    return best(request, candidates, qualified, found, topology);
  }
  return too_few(request, candidates, wanted, qualified.size(), must_be_free);
}

}  // namespace muster::gpu

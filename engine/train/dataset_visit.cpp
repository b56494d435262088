#include "train/dataset_visit.hpp"

#include <algorithm>

#include "train/abandon_pass.hpp"
#include "train/progress_sign.hpp"

namespace muster::train {
namespace {

std::vector<data::Unit> units_from(const DatasetVisit& visit, std::int64_t first) {
  std::vector<data::Unit> units;
  for (std::int64_t i = first; i < std::min(first + visit.micro_batch, visit.units()); ++i) {
    data::Unit& unit = units.emplace_back();
    const std::int64_t begin = i * visit.together + (visit.part == UnitPart::second ? 1 : 0);
    const std::int64_t count = visit.part == UnitPart::whole ? visit.together : 1;
    for (std::int64_t sample = begin; sample < begin + count; ++sample)
      unit.push_back(static_cast<std::uint32_t>(sample));
  }
  return units;
}

bool run_pass(const data::MicroBatch& batch, const VisitContext& context,
              const std::function<void(const data::MicroBatch&)>& measure) {
  model::ParameterAccess& home = context.model.home();
  if (batch.trained_rows.empty()) {
    stand_by(home, model::PassKind::measure, context.device);
    return true;
  }
  try {
    home.begin_pass(model::PassKind::measure);  // before anything can go wrong: what is left of it is known
    measure(batch);
    return true;
  } catch (const c10::OutOfMemoryError&) {
    // First release what the pass held.
  }
  abandon_pass(home, context.device);
  return false;
}

}  // namespace

bool visit_dataset(const DatasetVisit& visit, const VisitContext& context,
                   const std::function<void(const data::MicroBatch&)>& measure) {
  const std::int64_t stride = context.ranks.size() * visit.micro_batch;
  ProgressSign sign(context.tell, visit.what, (visit.units() + context.ranks.size() - 1) / context.ranks.size());
  std::int64_t done = 0;
  bool ran_out = false;
  for (std::int64_t all = 0; all < visit.units(); all += stride) {
    std::vector<data::Unit> units;
    if (!ran_out) units = units_from(visit, all + context.ranks.rank() * visit.micro_batch);
    if (!run_pass(data::make_micro_batch(visit.dataset, units), context, measure)) ran_out = true;
    done += std::ssize(units);
    sign.give(done);
  }
  return !ran_out;
}

}  // namespace muster::train

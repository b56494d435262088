// What the reference of a training by preferences says of each sample, computed once by the weights that it begins with.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "train/dataset_visit.hpp"
#include "train/objective_pass.hpp"

namespace muster::train {

// The sum of each sample's trained tokens' log-probabilities.
using SampleScores = std::vector<double>;

// Those that are kept in a file; absent: there is none of this many samples that is whole.
std::optional<SampleScores> read_sample_scores(const std::string& path, std::int64_t samples);
Result<void> write_sample_scores(const std::string& path, const SampleScores& scores);

// The same bits on every rank, whatever the passes. All ranks call it; as training itself it may run out of memory.
SampleScores score_samples(DatasetVisit visit, const VisitContext& context, ObjectivePass& passes);

}  // namespace muster::train

// How many optimizer steps a training has, and how often it evaluates and saves.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "data/prepare_data.hpp"
#include "spec/run_spec.hpp"
#include "wire/train_task.hpp"

namespace muster::job {

// As requested, or as many as the passes over the data, or the rounds, have.
Result<std::int64_t> step_count(const spec::RunSpec& spec, const data::PreparedData& data, std::int64_t batch,
                                std::int64_t longest);

// Where evaluations and checkpoints are told in rounds or passes.
Result<void> count_periods(wire::TrainTask& task, const spec::RunSpec& spec, const data::PreparedData& data,
                           std::int64_t longest);

}  // namespace muster::job

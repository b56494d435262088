// What the numbers of a training follow from, as hashes: of its checkpoints, and of scores that are kept beside its data.
#pragma once

#include <string>

#include "spec/run_spec.hpp"
#include "wire/train_task.hpp"

namespace muster::job {

// A hash of everything that the numbers of a run follow from: a checkpoint with another one is not resumed. How the
// state is laid over ranks is not part of it, nor what is computed twice; the number of steps may grow.
std::string identity_of(const wire::TrainTask& task, const spec::RunSpec& spec);

// The files with the reference's scores of training and evaluation data, where there is a reference.
void name_reference(wire::TrainTask& task, const spec::RunSpec& spec, bool on_gpu);

}  // namespace muster::job

// The tasks of the wire and what carries them out: one function each, found by its argument. A new kind of task is one
// more alternative of wire::Task and one more function here.
#pragma once

#include "base/result.hpp"
#include "wire/assignment.hpp"
#include "worker/job.hpp"

namespace muster::worker {

Result<void> run_task(const wire::CollectiveCheck& task, Job& job);
Result<void> run_task(const wire::GenerateTask& task, Job& job);
Result<void> run_task(const wire::TrainTask& task, Job& job);
Result<void> run_task(const wire::EvaluateTask& task, Job& job);

}  // namespace muster::worker

// From settings, plan and prepared data to what every rank is told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "data/prepare_data.hpp"
#include "plan/plan.hpp"
#include "spec/run_spec.hpp"
#include "wire/train_task.hpp"

namespace muster::job {

wire::TrainTask task_of(const spec::RunSpec& spec, const plan::Plan& plan, const plan::Question& question,
                        const std::filesystem::path& model, const data::PreparedData& data, std::int64_t steps,
                        std::int64_t batch);

// The file with the head of a critic that training begins with: beside the adapter that is trained on, else beside the model.
Result<std::optional<std::string>> find_value_head(const wire::TrainTask& task, const spec::ModelDescription& model);

}  // namespace muster::job

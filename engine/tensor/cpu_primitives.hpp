// What CPU ranks compute with, over engine/kernels.
#pragma once

#include <memory>

#include "kernels/thread_team.hpp"
#include "tensor/training_ops.hpp"
#include "tensor/row_ops.hpp"
#include "tensor/primitives.hpp"
#include "tensor/token_choice.hpp"

namespace muster::tensor {

std::unique_ptr<Primitives> make_cpu_primitives(std::shared_ptr<kernels::ThreadTeam> team);
std::unique_ptr<RowOps> make_cpu_row_ops(std::shared_ptr<kernels::ThreadTeam> team);
std::unique_ptr<TokenChoice> make_cpu_token_choice(std::shared_ptr<kernels::ThreadTeam> team);
std::unique_ptr<TrainingOps> make_cpu_training_ops(std::shared_ptr<kernels::ThreadTeam> team);

}  // namespace muster::tensor

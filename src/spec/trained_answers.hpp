// Which of the assistant's turns in a conversation are trained on.
#pragma once

#include <vector>

#include "spec/values.hpp"

namespace muster::spec {

enum class TrainedAnswers { all, last };

std::vector<Word<TrainedAnswers>> words(TrainedAnswers);

}  // namespace muster::spec

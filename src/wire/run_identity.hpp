// The settings that the numbers of a training run follow from, as a text to hash. The model and the data are added by who
// hashes it, by their contents.
#pragma once

#include <string>

#include "wire/train_task.hpp"

namespace muster::wire {

// The fields that are marked `of_identity`, as one line of JSON. Equal settings have had the same text in every version
// since runs can be resumed: Note [Fields that once were in the text].
std::string identity_text(const TrainTask& task);

}  // namespace muster::wire

// builtin:llama-0.6m-halfway: the built-in model after so many steps of learning to add that it gets most sums right, and
// not all. What training by rewards begins with.
#pragma once

#include <filesystem>

#include "job/train/train.hpp"

namespace muster::job {

std::filesystem::path halfway_model_folder(const std::filesystem::path& cache);

// Trains it, once, where it is asked for and not in the cache yet; seconds. To be called as train().
Result<void> make_halfway_model(host::Host& host, const spec::RunSpec& asked, const std::filesystem::path& cache,
                                const TrainListener& listener);

}  // namespace muster::job

// From the data that a user names to token files, made once and kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "data/arithmetic.hpp"
#include "data/row_form.hpp"
#include "data/sample.hpp"
#include "spec/sft_options.hpp"
#include "spec/trained_answers.hpp"

namespace muster::data {

constexpr const char* arithmetic_name = "builtin:arithmetic";

struct DataRequest {
  std::string path;                       // a file, a folder, or builtin:arithmetic
  std::optional<std::string> evaluation;  // the same for evaluation; builtin:arithmetic evaluates on its held-out ones
  ArithmeticSettings arithmetic;
  std::int64_t sequence_length = 1024;  // tokens of a sample at most
  spec::TrainedAnswers train_on = spec::TrainedAnswers::all;  // of a conversation
  spec::SftMode mode = spec::SftMode::behavioral_cloning;     // likewise
  spec::TrajectoryChoice trajectories = {};                   // of those that are trained on
  RowForm form = RowForm::examples;
};

struct PreparedFile {
  std::filesystem::path path;  // a token file: Dataset::open
  SampleCounts counts;
  bool was_there = false;  // made by an earlier call
};

struct PreparedData {
  PreparedFile training;
  std::optional<PreparedFile> evaluation;
};

struct PreparationProgress {
  enum class Phase {
    waiting,    // another process prepares the same
    digesting,  // checks whether the data is known
    tokenizing,
  };
  Phase phase = Phase::tokenizing;
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};
using OnPreparation = std::function<void(const PreparationProgress&)>;

// MUSTER_CACHE, else XDG_CACHE_HOME/muster, else ~/.cache/muster.
std::filesystem::path cache_folder_from_environment();

// Token files lie in cache/data under a name that follows from contents, tokenizer, chat template, sequence length and
// what is learnt of rows; one that is there and whole is used. Bad rows are refused, up to ten at once, each with its file and line.
// When several processes want the same, one makes it, and the others wait. Memory does not grow with the data.
// progress: called from this thread, often.
Result<PreparedData> prepare_data(const DataRequest& request, const chat::ModelText& text, const std::filesystem::path& cache,
                                  int threads, const OnPreparation& progress = {});

// The same for data that is only evaluated on: request.path, or the held-out questions of builtin:arithmetic.
Result<PreparedFile> prepare_evaluation(const DataRequest& request, const chat::ModelText& text,
                                        const std::filesystem::path& cache, int threads,
                                        const OnPreparation& progress = {});

}  // namespace muster::data

// muster generate, the controlling side: what is asked for becomes a plan that fits, then one job of workers; prompts
// go down as ranks want them, results come back and are written in the order of the prompts.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/plan.hpp"
#include "service/host.hpp"
#include "service/output_record.hpp"
#include "service/worker_run.hpp"
#include "spec/resolve.hpp"
#include "wire/generate_task.hpp"

namespace muster::service {

enum class GenerateMode {
  answer,    // each prompt gets its answers
  score,     // given completions get their log-probabilities
  converse,  // turns of one conversation, streamed
};

struct GenerateWish {
  spec::ResolvedSpec settings;
  GenerateMode mode = GenerateMode::answer;
  bool log_probabilities = false;
  std::string prompts;       // a file, or "-" for standard input
  std::string output = "-";  // a file, or "-" for standard output
  bool resume = false;       // go on from what the output has
};

// Everything that is known before anything starts.
struct GeneratePlan {
  plan::Question question;
  plan::Plan plan;
  WorkerJob job;
  std::string device;                 // "cpu", "GPU 0 NVIDIA H200", "4 GPUs (0,1,2,3) NVIDIA H200"
  std::optional<std::int64_t> total;  // prompts; absent: standard input does not tell
  std::vector<std::string> notes;     // what the user should know
  nlohmann::ordered_json record;      // what the rows of an output file follow from; null: it is not kept
  AnsweredRows answered;              // what the output has already

  // Nothing is left to do.
  bool complete() const { return answered.prompts > 0 && answered.prompts == total; }
  // Ranks that hold one model between them.
  int stages() const { return std::max(static_cast<int>(task().stages.size()), 1); }
  const wire::GenerateTask& task() const { return std::get<wire::GenerateTask>(job.assignment.task); }
};

// Settings checked, device chosen, model and prompts read, memory counted; nothing is taken or started. A plan that
// does not fit is a GeneratePlan with a refusal.
Result<GeneratePlan> plan_generation(Host& host, const GenerateWish& wish);
// Why it does not fit, and what of this command's options would make it.
Error refusal_of(const GeneratePlan& plan);

// What a rank has taken of its device's memory, at most so far.
struct RankMemory {
  std::int64_t peak = 0;              // bytes
  std::optional<std::int64_t> limit;  // that it may take
};

// How far a run is.
struct GenerateProgress {
  bool loading = true;
  std::string what;          // while loading: what is
  double share = 0;          // of the loading that is done, from 0 to 1
  std::int64_t earlier = 0;  // prompts that an earlier run has answered
  std::int64_t prompts = 0;  // done, with these
  std::optional<std::int64_t> total;
  std::int64_t tokens = 0;                  // of answers, or of completions that were scored, over all ranks
  std::optional<RankMemory> memory;         // of the rank that has taken most
  std::chrono::milliseconds elapsed{0};     // since the start
  std::chrono::milliseconds generating{0};  // since everything was loaded
};
// "120/400 prompts, 1320 tokens/s, 2 min left, 3.1 GiB".
std::string progress_text(const GenerateProgress& progress);

struct GenerateSummary {
  int exit_code = 0;         // 128 + signal where it was interrupted
  std::int64_t earlier = 0;  // prompts that an earlier run has answered
  std::int64_t prompts = 0;  // answered, and written where the output is
  std::int64_t answers = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0;                  // of answers, or of completions
  std::chrono::milliseconds loading{0};     // until everything was loaded
  std::chrono::milliseconds generating{0};  // from then on
  std::int64_t shortened = 0;               // prompts whose beginning was cut off
  std::int64_t redone = 0;                  // prompts given out again, because whoever had them died
  std::int64_t lost_ranks = 0;              // that died
  std::optional<RankMemory> memory;         // of the rank that took most
  std::vector<std::string> notes;           // what the user should know
};
// One line for people; one JSON object for programs.
std::string summary_text(const GeneratePlan& plan, const GenerateSummary& summary);
std::string summary_json(const GeneratePlan& plan, const GenerateSummary& summary);

struct GenerateListener {
  std::function<void(const std::string&)> note;
  std::function<void(const GenerateProgress&)> progress = {};
};

// Runs a plan that fits. To be called while this process has one thread.
Result<GenerateSummary> generate(Host& host, const GenerateWish& wish, const GeneratePlan& plan,
                                 const GenerateListener& listener);

}  // namespace muster::service

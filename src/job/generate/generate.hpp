// muster generate, the controlling side: the request becomes a plan that fits, then one job of workers; prompts
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
#include "host/device_choice.hpp"
#include "host/host.hpp"
#include "job/generate/output_record.hpp"
#include "job/generate/prompt_file.hpp"
#include "job/job_plan.hpp"
#include "job/worker_run.hpp"
#include "plan/plan.hpp"
#include "spec/resolve.hpp"
#include "wire/generate_task.hpp"

namespace muster::job {

enum class GenerateMode {
  answer,    // each prompt gets its answers
  score,     // given completions get their log-probabilities
  converse,  // turns of one conversation, streamed
};

struct GenerateRequest {
  spec::ResolvedSpec settings;
  GenerateMode mode = GenerateMode::answer;
  bool log_probabilities = false;
  std::string prompts;       // a file, or "-" for standard input
  std::vector<std::string> texts = {};  // prompts themselves, in place of a file
  std::string output = "-";  // a file, or "-" for standard output
  bool resume = false;       // continue after what the output has
  host::Purpose purpose = host::Purpose::compute;
};

// Everything that is known before anything starts.
struct GeneratePlan : JobPlan {
  std::optional<std::int64_t> total;  // prompts; absent: unknown, as for standard input
  nlohmann::ordered_json record;      // what the rows of an output file follow from; null: none is kept
  AnsweredRows answered;              // what the output has already

  // Nothing is left to do.
  bool complete() const { return answered.prompts > 0 && answered.prompts == total; }
  // Ranks that hold one model together.
  int stages() const { return std::max(static_cast<int>(task().stages.size()), 1); }
  const wire::GenerateTask& task() const { return std::get<wire::GenerateTask>(job.assignment.task); }
};

// What a row must hold for the mode.
Result<PromptFile> open_prompts(const GenerateRequest& request);

// Settings checked, device chosen, model and prompts read, memory counted; nothing is taken or started. A plan that
// does not fit is a GeneratePlan with a refusal.
Result<GeneratePlan> plan_generation(host::Host& host, const GenerateRequest& request);
// Why it does not fit, and which of this command's options would make it fit.
Error refusal_of(const GeneratePlan& plan);

// The most that a rank has taken of its device's memory so far.
struct RankMemory {
  std::int64_t peak = 0;              // bytes
  std::optional<std::int64_t> limit;  // the most it may take
};

// How far a run has got.
struct GenerateProgress {
  bool loading = true;
  std::string what;          // while loading: what is being loaded
  double share = 0;          // of the loading that is done, from 0 to 1
  std::int64_t earlier = 0;  // prompts that an earlier run answered
  std::int64_t prompts = 0;  // done, including these
  std::optional<std::int64_t> total;
  std::int64_t tokens = 0;                  // of answers, or of scored completions, over all ranks
  std::optional<RankMemory> memory;         // of the rank that has taken the most
  std::chrono::milliseconds elapsed{0};     // since the start
  std::chrono::milliseconds generating{0};  // since everything was loaded
};
// "120/400 prompts, 1320 tokens/s, 2 min left, 3.1 GiB".
std::string progress_text(const GenerateProgress& progress);

struct GenerateSummary {
  int exit_code = 0;         // 128 + signal where it was interrupted
  std::int64_t earlier = 0;  // prompts that an earlier run answered
  std::int64_t prompts = 0;  // answered, and written to the output
  std::int64_t answers = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0;                  // of answers, or of completions
  std::chrono::milliseconds loading{0};     // until everything was loaded
  std::chrono::milliseconds generating{0};  // from then on
  std::int64_t shortened = 0;               // prompts whose beginning was cut off
  std::int64_t redone = 0;                  // prompts given out again, because the replica that had them died
  std::int64_t lost_ranks = 0;              // that died
  std::optional<RankMemory> memory;         // of the rank that took the most
  std::int64_t failed = 0;                  // prompts without an answer or score: their rows say why
  std::optional<Error> failure = {};        // of these, for people
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
Result<GenerateSummary> generate(host::Host& host, const GenerateRequest& request, const GeneratePlan& plan,
                                 const GenerateListener& listener);

}  // namespace muster::job

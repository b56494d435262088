// Prompts down, results up: what a run of muster generate receives from its ranks and sends them.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "job/generate/generate.hpp"
#include "job/generate/generate_rows.hpp"
#include "job/generate/line_output.hpp"
#include "job/generate/ordered_results.hpp"
#include "job/generate/prompt_file.hpp"
#include "job/generate/rank_memory.hpp"
#include "job/generate/request_ledger.hpp"
#include "system/file_descriptor.hpp"

namespace muster::job {

// A descriptor that is always readable: returned for "ask again at once" where a descriptor to wait for is expected.
FileDescriptor always_readable();

class GenerateJob : public WorkerListener {
 public:
  // How far the prompts may run ahead of the first one that has no result.
  struct Window {
    std::int64_t prompts = 16384;
    std::size_t bytes = std::size_t{48} << 20;  // of prompts without a result, and results that wait for an earlier one
  };
  struct Setting {
    const wire::GenerateTask& task;
    int ranks = 1;
    std::optional<std::int64_t> total = {};  // prompts
    AnsweredRows answered = {};              // by an earlier run: those prompts are passed over
    nlohmann::ordered_json record = {};      // to keep next to the output; null: none is kept
    Window window = {};
  };
  GenerateJob(PromptFile prompts, LineOutput output, Setting setting, GenerateListener listener);

  Result<void> on_event(const wire::Event& event) override;
  Result<wire::NextRequest> next_request(int rank) override;
  std::optional<int> input() override;
  Result<void> rank_left(int rank, const std::optional<std::string>& reason) override;
  bool is_stranded(int rank) override { return lost_.contains(replica(rank)); }

  // Called when the ranks have ended.
  GenerateSummary summary() const;
  // Prompts that were given out and have no result.
  std::size_t missing() const { return ledger_.size(); }
  // "p.jsonl:3, p.jsonl:4 were with the 2 ranks that died last": empty where no prompt is under suspicion.
  std::string suspicion() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool window_is_open() const;
  int replica(int rank) const { return replica_of(rank, stages_); }
  std::optional<std::int64_t> unread() const;
  Result<wire::NextRequest> fresh_request(int replica);
  Result<NextPrompt> next_prompt();
  Result<void> begin(int rank);
  Result<void> take(const wire::TaskResult& result);
  Result<std::string> lines_of(const wire::TaskResult& result, const OpenRequest& prompt);
  void count_failure(const std::string& error, const OpenRequest& prompt);
  void count_dropped(std::int64_t dropped, std::int64_t line);
  void note_progress(int rank, const wire::Progress& progress);
  void tell_progress();
  std::string place(const OpenRequest& request) const;

  PromptFile prompts_;
  LineOutput output_;
  Setting setting_;
  const wire::GenerateTask& task_;
  GenerateListener listener_;
  int stages_;
  FileDescriptor again_;
  OrderedResults results_;
  std::int64_t written_;  // prompts whose rows the output has
  RequestLedger ledger_;
  std::int64_t read_ = 0;               // prompts read from the file
  bool ended_ = false;                  // no more prompts
  bool starved_ = false;                // the next prompt has not come yet
  std::set<int> lost_;                  // replicas of which a rank died
  std::set<int> done_;                  // ranks that did everything
  std::map<int, std::int64_t> tokens_;  // by rank: chosen so far, as it reports
  std::map<int, double> loaded_;        // by rank: the share that is loaded
  bool guilty_named_ = false;           // the job ends because of one prompt, and says which
  PeakMemory memory_;
  GenerateSummary summary_;
  GenerateProgress progress_;
  std::int64_t most_dropped_ = 0;
  std::string first_shortened_;  // "prompts.jsonl:3"
  std::pair<std::int64_t, std::string> first_failed_;  // its line, and why
  Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> ready_;
  Clock::time_point last_result_{};
};

}  // namespace muster::job

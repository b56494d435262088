// Prompts down, results up: what a run of muster generate hears from its ranks and gives them.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "base/file_descriptor.hpp"
#include "service/generate.hpp"
#include "service/generate_rows.hpp"
#include "service/line_output.hpp"
#include "service/ordered_results.hpp"
#include "service/prompt_file.hpp"

namespace muster::service {

// A descriptor that is always readable: what stands for "ask again at once" where a descriptor is waited for.
FileDescriptor always_readable();

class GenerateJob : public WorkerListener {
 public:
  // How far the prompts may run ahead of the first one that has no result.
  struct Window {
    std::int64_t prompts = 16384;
    std::size_t bytes = std::size_t{64} << 20;  // of results that wait for an earlier one
  };
  GenerateJob(PromptFile prompts, LineOutput output, const wire::GenerateTask& task, GenerateListener listener,
              std::optional<std::int64_t> total, Window window);
  GenerateJob(PromptFile prompts, LineOutput output, const wire::GenerateTask& task, GenerateListener listener,
              std::optional<std::int64_t> total)
      : GenerateJob(std::move(prompts), std::move(output), task, std::move(listener), total, Window{}) {}

  Result<void> happened(const wire::Event& event) override;
  Result<wire::NextRequest> next_request(int rank) override;
  std::optional<int> input() override;

  // When the ranks have ended.
  GenerateSummary summary() const;
  // Prompts that were given out and have no result.
  std::size_t missing() const { return waiting_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    OrderedJson id;
    std::int64_t line = 0;
  };
  bool window_is_open() const;
  Result<void> take(const wire::TaskResult& result);
  Result<std::string> lines_of(const wire::TaskResult& result, const Waiting& prompt);
  void count_dropped(std::int64_t dropped, std::int64_t line);
  void tell_progress();

  PromptFile prompts_;
  LineOutput output_;
  const wire::GenerateTask& task_;
  GenerateListener listener_;
  std::optional<std::int64_t> total_;
  Window window_;
  FileDescriptor again_;
  OrderedResults results_;
  std::map<std::int64_t, Waiting> waiting_;  // by index: given out, no result yet
  bool ended_ = false;                       // no more prompts
  GenerateSummary summary_;
  GenerateProgress progress_;
  std::int64_t running_tokens_ = 0;  // of answers that are not done, as ranks tell
  std::int64_t most_dropped_ = 0;
  std::string first_shortened_;  // "prompts.jsonl:3"
  Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> ready_;
  Clock::time_point last_result_{};
};

}  // namespace muster::service

#include "service/generate_job.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <utility>

#include "base/duration.hpp"
#include "service/generate_rows.hpp"

namespace muster::service {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

Error nonsense(int rank, std::string what) {
  return {Error::Kind::failed, fmt::format("rank {} {}", rank, what), "report this as a bug of muster"};
}

}  // namespace

FileDescriptor always_readable() { return FileDescriptor(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)); }

GenerateJob::GenerateJob(PromptFile prompts, LineOutput output, const wire::GenerateTask& task,
                         GenerateListener listener, std::optional<std::int64_t> total, Window window)
    : prompts_(std::move(prompts)),
      output_(std::move(output)),
      task_(task),
      listener_(std::move(listener)),
      total_(total),
      window_(window),
      again_(always_readable()) {
  progress_.total = total;
}

bool GenerateJob::window_is_open() const {
  return waiting_.empty() || (std::ssize(waiting_) < window_.prompts && results_.held_bytes() < window_.bytes);
}

Result<wire::NextRequest> GenerateJob::next_request(int) {
  if (ended_) return wire::NextRequest(wire::EndOfRequests{});
  if (!window_is_open()) return wire::NextRequest(wire::NotYet{});
  auto next = prompts_.try_next();
  if (!next) return next.error();
  if (std::holds_alternative<NoPromptYet>(*next)) return wire::NextRequest(wire::NotYet{});
  if (std::holds_alternative<NoMorePrompts>(*next)) {
    ended_ = true;
    return wire::NextRequest(wire::EndOfRequests{});
  }
  PromptRow& prompt = std::get<PromptRow>(*next);
  wire::Request request{prompt.index, request_row(prompt, task_.score ? PromptUse::scores : PromptUse::prompts)};
  waiting_.emplace(prompt.index, Waiting{std::move(prompt.id), prompt.line});
  return wire::NextRequest(std::move(request));
}

// While the window is closed only a result can open it, and that is an event of its own.
std::optional<int> GenerateJob::input() {
  if (!ended_ && !window_is_open()) return std::nullopt;
  return ended_ || prompts_.ready() ? again_.number() : prompts_.descriptor();
}

void GenerateJob::count_dropped(std::int64_t dropped, std::int64_t line) {
  if (dropped <= 0) return;
  if (summary_.shortened++ == 0) first_shortened_ = fmt::format("{}:{}", prompts_.name(), line);
  most_dropped_ = std::max(most_dropped_, dropped);
}

Result<std::string> GenerateJob::lines_of(const wire::TaskResult& result, const Waiting& prompt) {
  constexpr std::string_view source = "a result";
  if (task_.score) {
    const auto score = wire::parse_fields<wire::ScoreResult>(result.row, source);
    if (!score) return score.error();
    summary_.tokens += score->token_count;
    summary_.prompt_tokens += score->prompt_tokens;
    ++summary_.answers;
    count_dropped(score->dropped_tokens, prompt.line);
    return score_line(result.index, prompt.id, *score, task_.log_probabilities);
  }
  const auto answers = wire::parse_fields<wire::GenerationResult>(result.row, source);
  if (!answers) return answers.error();
  for (const wire::Answer& answer : answers->samples) summary_.tokens += std::ssize(answer.tokens);
  summary_.prompt_tokens += answers->prompt_tokens;
  summary_.answers += std::ssize(answers->samples);
  count_dropped(answers->dropped_tokens, prompt.line);
  return answer_lines(result.index, prompt.id, *answers, task_.log_probabilities);
}

Result<void> GenerateJob::take(const wire::TaskResult& result) {
  const auto found = waiting_.find(result.index);
  if (found == waiting_.end())
    return Error{Error::Kind::failed, fmt::format("a result came for request {}, which waits for none", result.index),
                 "report this as a bug of muster"};
  auto lines = lines_of(result, found->second);
  if (!lines) return lines.error();
  waiting_.erase(found);
  results_.add(result.index, std::move(*lines));
  ++summary_.prompts;
  last_result_ = Clock::now();
  const std::string ready = results_.take();
  return ready.empty() ? Result<void>() : output_.append(ready);
}

void GenerateJob::tell_progress() {
  if (!listener_.progress) return;
  progress_.elapsed = duration_cast<milliseconds>(Clock::now() - started_);
  progress_.loading = !ready_;
  if (ready_) progress_.generating = duration_cast<milliseconds>(Clock::now() - *ready_);
  progress_.prompts = summary_.prompts;
  progress_.tokens = std::max(summary_.tokens, running_tokens_);
  listener_.progress(progress_);
}

Result<void> GenerateJob::happened(const wire::Event& event) {
  if (std::holds_alternative<wire::Ready>(event.body) && !ready_) {
    ready_ = Clock::now();
    if (auto begun = output_.begin(); !begun) return begun;
  } else if (const auto* progress = std::get_if<wire::Progress>(&event.body)) {
    progress_.what = progress->what;
    if (ready_)
      running_tokens_ = progress->done;
    else if (progress->total.value_or(0) > 0)
      progress_.share = static_cast<double>(progress->done) / static_cast<double>(*progress->total);
  } else if (const auto* result = std::get_if<wire::TaskResult>(&event.body)) {
    if (!ready_) return nonsense(event.rank, "gave a result before it was ready");
    if (auto taken = take(*result); !taken) return taken;
  }
  tell_progress();
  return {};
}

GenerateSummary GenerateJob::summary() const {
  GenerateSummary made = summary_;
  made.loading = duration_cast<milliseconds>(ready_.value_or(Clock::now()) - started_);
  if (ready_ && made.prompts > 0) made.generating = duration_cast<milliseconds>(last_result_ - *ready_);
  if (made.shortened > 0)
    made.notes.push_back(
        fmt::format("{} of {} prompts {} too long, and lost {} beginning: up to {} tokens; the first is {}",
                    made.shortened, made.prompts, made.shortened == 1 ? "was" : "were",
                    made.shortened == 1 ? "its" : "their", most_dropped_, first_shortened_));
  return made;
}

}  // namespace muster::service

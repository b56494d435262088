#include "job/generate/generate_job.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "base/duration.hpp"
#include "json/fields.hpp"
#include "base/text.hpp"
#include "system/files.hpp"

namespace muster::job {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr std::size_t named_suspects = 3;

Error nonsense(int rank, std::string what) {
  return {Error::Kind::failed, fmt::format("rank {} {}", rank, what), "report this as a bug of muster"};
}

}  // namespace

FileDescriptor always_readable() { return FileDescriptor(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)); }

GenerateJob::GenerateJob(PromptFile prompts, LineOutput output, Setting setting, GenerateListener listener)
    : prompts_(std::move(prompts)),
      output_(std::move(output)),
      setting_(std::move(setting)),
      task_(setting_.task),
      listener_(std::move(listener)),
      stages_(std::max(static_cast<int>(task_.stages.size()), 1)),
      again_(always_readable()),
      results_(setting_.answered.prompts),
      written_(setting_.answered.prompts),
      ledger_(setting_.ranks / stages_) {
  progress_.total = setting_.total;
  progress_.earlier = summary_.earlier = setting_.answered.prompts;
}

bool GenerateJob::window_is_open() const {
  return ledger_.size() == 0 || (static_cast<std::int64_t>(ledger_.size()) < setting_.window.prompts &&
                                 ledger_.bytes() + results_.held_bytes() < setting_.window.bytes);
}

// Absent: not known.
std::optional<std::int64_t> GenerateJob::unread() const {
  if (ended_) return 0;
  if (!setting_.total) return std::nullopt;
  return std::max<std::int64_t>(*setting_.total - std::max(read_, setting_.answered.prompts), 0);
}

Result<NextPrompt> GenerateJob::next_prompt() {
  while (true) {
    auto next = prompts_.try_next();
    if (!next || !std::holds_alternative<PromptRow>(*next)) return next;
    ++read_;
    if (std::get<PromptRow>(*next).index >= setting_.answered.prompts) return next;
  }
}

Result<wire::NextRequest> GenerateJob::fresh_request(int replica) {
  if (!window_is_open()) return wire::NextRequest(wire::NotYet{});
  auto next = next_prompt();
  if (!next) return next.error();
  starved_ = std::holds_alternative<NoPromptYet>(*next);
  if (starved_) return wire::NextRequest(wire::NotYet{});
  if (std::holds_alternative<NoMorePrompts>(*next)) {
    ended_ = true;
    return next_request(replica * stages_);
  }
  PromptRow& prompt = std::get<PromptRow>(*next);
  wire::Request request{prompt.index, request_row(prompt, task_.score ? PromptUse::scores : PromptUse::prompts)};
  ledger_.give(replica, {request, std::move(prompt.id), prompt.line, 0, std::nullopt});
  return wire::NextRequest(std::move(request));
}

// A rank that has nothing left to do stays while others have prompts: those others may die.
Result<wire::NextRequest> GenerateJob::next_request(int rank) {
  const int asking = replica(rank);
  if (unread() == 0) ended_ = true;
  if (ended_ && !ledger_.others_have_some(asking)) return wire::NextRequest(wire::EndOfRequests{});
  if (!ledger_.may_take(asking, unread())) return wire::NextRequest(wire::NotYet{});
  if (auto again = ledger_.take_again(asking)) return wire::NextRequest(std::move(*again));
  return ended_ ? Result<wire::NextRequest>(wire::NotYet{}) : fresh_request(asking);
}

// Anything else that may make a request available is an event of its own.
std::optional<int> GenerateJob::input() {
  if (!starved_) return std::nullopt;
  return prompts_.ready() ? again_.number() : prompts_.descriptor();
}

void GenerateJob::count_dropped(std::int64_t dropped, std::int64_t line) {
  if (dropped <= 0) return;
  if (summary_.shortened++ == 0) first_shortened_ = fmt::format("{}:{}", prompts_.name(), line);
  most_dropped_ = std::max(most_dropped_, dropped);
}

void GenerateJob::count_failure(const std::string& error, const OpenRequest& prompt) {
  if (summary_.failed++ == 0 || prompt.line < first_failed_.first) first_failed_ = {prompt.line, error};
}

Result<std::string> GenerateJob::lines_of(const wire::TaskResult& result, const OpenRequest& prompt) {
  constexpr std::string_view source = "a result";
  if (task_.score) {
    const auto score = parse_fields<wire::ScoreResult>(result.row, source);
    if (!score) return score.error();
    summary_.tokens += score->token_count;
    summary_.prompt_tokens += score->prompt_tokens;
    ++summary_.answers;
    count_dropped(score->dropped_tokens, prompt.line);
    if (score->error) count_failure(*score->error, prompt);
    return score_line(result.index, prompt.id, *score, task_.log_probabilities);
  }
  const auto answers = parse_fields<wire::GenerationResult>(result.row, source);
  if (!answers) return answers.error();
  for (const wire::Answer& answer : answers->samples) summary_.tokens += std::ssize(answer.tokens);
  summary_.prompt_tokens += answers->prompt_tokens;
  summary_.answers += std::ssize(answers->samples);
  count_dropped(answers->dropped_tokens, prompt.line);
  const auto wrong = std::ranges::find_if(answers->samples, [](const wire::Answer& each) { return each.error.has_value(); });
  if (wrong != answers->samples.end()) count_failure(*wrong->error, prompt);
  return answer_lines(result.index, prompt.id, *answers, task_.log_probabilities);
}

// A rank that was taken for dead may still have answered: the first answer counts.
Result<void> GenerateJob::take(const wire::TaskResult& result) {
  const auto prompt = ledger_.answered(result.index);
  if (!prompt && result.index >= setting_.answered.prompts && result.index < read_ && summary_.lost_ranks > 0)
    return {};
  if (!prompt)
    return Error{Error::Kind::failed, fmt::format("a result came for request {}, which waits for none", result.index),
                 "report this as a bug of muster"};
  auto lines = lines_of(result, *prompt);
  if (!lines) return lines.error();
  results_.add(result.index, std::move(*lines));
  ++summary_.prompts;
  last_result_ = Clock::now();
  const std::string ready = results_.take();
  if (ready.empty()) return {};
  if (auto appended = output_.append(ready); !appended) return appended;
  written_ = results_.next();
  return {};
}

// Results arrive over the connection of a replica's first rank: another rank that has done everything and left says
// nothing about them.
Result<void> GenerateJob::rank_left(int rank, const std::optional<std::string>&) {
  if (done_.contains(rank)) {
    if (rank % stages_ == 0 && ledger_.lose(replica(rank)).put_back > 0)
      return nonsense(rank, "ended before it had answered everything");
    return {};
  }
  ++summary_.lost_ranks;
  lost_.insert(replica(rank));
  const RequestLedger::Loss loss = ledger_.lose(replica(rank));
  guilty_named_ = loss.guilty.has_value();
  if (loss.guilty)
    return Error{Error::Kind::failed,
                 fmt::format("{}: {} ranks died of this prompt; the last one, rank {}, had no other",
                             place(*loss.guilty), loss.guilty->deaths + 1, rank),
                 "leave it out; --batch-size 1 with it alone shows how it fails"};
  if (ledger_.living() == 0) return {};  // the end of the job says why
  summary_.redone += loss.put_back;
  if (loss.put_back > 0 && listener_.note)
    listener_.note(fmt::format("rank {} is gone; the {} it had {} redone by the others", rank,
                               loss.put_back == 1 ? "prompt" : fmt::format("{} prompts", loss.put_back),
                               loss.put_back == 1 ? "is" : "are"));
  return {};
}

std::string GenerateJob::place(const OpenRequest& request) const {
  return fmt::format("{}:{}", prompts_.name(), request.line);
}

std::string GenerateJob::suspicion() const {
  const auto suspects = ledger_.suspects();
  if (suspects.empty() || guilty_named_) return "";
  std::vector<std::string> names;
  for (const OpenRequest* suspect : suspects) names.push_back(names.size() < named_suspects ? place(*suspect) : "…");
  names.resize(std::min(names.size(), named_suspects + 1));
  return fmt::format("{} {} with {} ranks when they died", join(names, ", "), suspects.size() == 1 ? "was" : "were",
                     suspects.front()->deaths);
}

Result<void> GenerateJob::begin(int rank) {
  loaded_[rank] = 1;
  if (ready_) return {};
  ready_ = Clock::now();
  if (auto begun = output_.begin(setting_.answered.bytes); !begun) return begun;
  if (!output_.is_regular_file()) return {};
  const auto record = record_path(output_.name());
  if (!setting_.record.is_null()) return write_file_atomically(record, setting_.record.dump(2) + "\n");
  std::error_code none_there;
  std::filesystem::remove(record, none_there);  // what it describes is overwritten
  return {};
}

void GenerateJob::note_progress(int rank, const wire::Progress& progress) {
  if (progress.what == "tokens") {
    tokens_[rank] = progress.done;
  } else if (progress.what != "memory") {
    progress_.what = progress.what;
    if (progress.total.value_or(0) > 0)
      loaded_[rank] = static_cast<double>(progress.done) / static_cast<double>(*progress.total);
  }
}

void GenerateJob::tell_progress() {
  if (!listener_.progress) return;
  progress_.elapsed = duration_cast<milliseconds>(Clock::now() - started_);
  progress_.loading = !ready_;
  double loaded = 0;
  for (const auto& [rank, share] : loaded_) loaded += share;
  progress_.share = loaded / setting_.ranks;
  if (ready_) progress_.generating = duration_cast<milliseconds>(Clock::now() - *ready_);
  progress_.prompts = summary_.earlier + summary_.prompts;
  std::int64_t chosen = 0;
  for (const auto& [rank, tokens] : tokens_) chosen += tokens;
  progress_.tokens = std::max(summary_.tokens, chosen);
  progress_.memory = memory_.highest();
  listener_.progress(progress_);
}

Result<void> GenerateJob::on_event(const wire::Event& event) {
  memory_.on_event(event);
  if (std::holds_alternative<wire::Ready>(event.body)) {
    if (auto begun = begin(event.rank); !begun) return begun;
  } else if (const auto* progress = std::get_if<wire::Progress>(&event.body)) {
    note_progress(event.rank, *progress);
  } else if (const auto* result = std::get_if<wire::TaskResult>(&event.body)) {
    if (!ready_) return nonsense(event.rank, "gave a result before it was ready");
    if (auto taken = take(*result); !taken) return taken;
  } else if (std::holds_alternative<wire::Done>(event.body)) {
    done_.insert(event.rank);
  }
  tell_progress();
  return {};
}

GenerateSummary GenerateJob::summary() const {
  GenerateSummary made = summary_;
  made.prompts = written_ - summary_.earlier;
  made.loading = duration_cast<milliseconds>(ready_.value_or(Clock::now()) - started_);
  if (ready_ && summary_.prompts > 0) made.generating = duration_cast<milliseconds>(last_result_ - *ready_);
  made.memory = memory_.highest();
  if (made.shortened > 0)
    made.notes.push_back(
        fmt::format("{} of {} prompts {} too long, and lost {} beginning: up to {} tokens; the first is {}",
                    made.shortened, summary_.prompts, made.shortened == 1 ? "was" : "were",
                    made.shortened == 1 ? "its" : "their", most_dropped_, first_shortened_));
  if (made.failed > 0)
    made.failure = Error{Error::Kind::failed,
                         fmt::format("{} of {} prompts failed; the first is {}:{}: {}", made.failed, summary_.prompts,
                                     prompts_.name(), first_failed_.first, first_failed_.second),
                         "the model's weights or its numbers' range are broken: check where it comes from, and try "
                         "--dtype float32"};
  return made;
}

}  // namespace muster::job

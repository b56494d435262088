#include "queue/oom_verdict.hpp"

#include "launch/error_tail.hpp"
#include "launch/failure.hpp"

namespace muster::queue {

using schedule::HowEnded;

CommandEnd with_memory_told(const CommandEnd& end, bool memory_was_full, std::string_view last_words) {
  constexpr std::size_t lines_read = 200;
  constexpr int signal_base = 128;
  launch::WorkerFailure failure;
  if (end.how == HowEnded::killed)
    failure.end.signal = end.code;
  else
    failure.end.exit_code = end.code;
  failure.out_of_memory_kill = memory_was_full;
  launch::ErrorTail tail;
  tail.remember(last_words);
  failure.last_lines = tail.lines(lines_read);
  launch::classify(failure);
  const bool is_for_memory =
      failure.kind == launch::FailureKind::gpu_memory || failure.kind == launch::FailureKind::host_memory;
  if (!is_for_memory) return end;
  return {HowEnded::out_of_memory, end.how == HowEnded::killed ? signal_base + end.code : end.code};
}

}  // namespace muster::queue

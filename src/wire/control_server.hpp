// The controlling end of the channel: one connection for each rank of a job.
//
//   worker → hello         → assignment
//          → want 3        → request, request, request | pause | cancel | end-of-requests
//          → progress, token, result …
//          → done | failed, and the connection ends
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <variant>

#include "base/result.hpp"
#include "wire/event.hpp"
#include "wire/order.hpp"

namespace muster::wire {

// The environment variable that gives a worker the channel.
inline constexpr const char* control_variable = "MUSTER_CONTROL";

// No request now, but perhaps later: asked again when the input of the listener is ready, and after every result
// and every rank that left.
struct NotYet {};
// A Cancel is sent in between, and the next one asked for.
using NextRequest = std::variant<Request, NotYet, EndOfRequests, Cancel>;

// Called on the server's thread, one call at a time. An Error ends the job: every connection is closed, which ends the
// ranks.
class ControlListener {
 public:
  virtual ~ControlListener() = default;
  virtual Result<void> on_event(const Event&) { return {}; }
  // For a rank that can take one.
  virtual Result<NextRequest> next_request(int) { return NextRequest(EndOfRequests{}); }
  // A descriptor that becomes readable when there may be a request where there was NotYet one.
  virtual std::optional<int> input() { return std::nullopt; }
  // The rank's connection ended. reason: absent when it had said done or failed.
  virtual Result<void> rank_left(int, const std::optional<std::string>&) { return {}; }
  // Whether a rank can no longer do anything, because others that it works with have left: its connection is closed,
  // which ends it. Called after ranks have left.
  virtual bool is_stranded(int) { return false; }
  // When the job is considered stuck, unless something is received before; called again after each message.
  virtual std::optional<std::chrono::steady_clock::time_point> deadline() { return std::nullopt; }
  // The error that is then reported; it ends the job.
  virtual Error deadline_passed() { return {}; }
};

// Those served here: all ranks of a job, or those of one of its hosts.
struct RankRange {
  int first = 0;
  int count = 1;
};

class ControlServer {
 public:
  // Binds; serves nothing yet, and has no thread.
  static Result<ControlServer> open();
  ControlServer(ControlServer&&) noexcept;
  ControlServer& operator=(ControlServer&&) noexcept;
  ~ControlServer();

  // The value of control_variable for the ranks.
  const std::filesystem::path& address() const;
  // A folder for this job alone, removed with the server.
  const std::filesystem::path& folder() const;

  // Starts the thread that serves these ranks. listener is used until finish() returns.
  void serve(const Assignment& assignment, RankRange ranks, ControlListener& listener);
  // To be called when the ranks have ended: takes their last messages, and ends the thread. The first Error of the
  // listener, or of a rank that sent nonsense.
  Result<void> finish();

 private:
  struct State;
  explicit ControlServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::wire

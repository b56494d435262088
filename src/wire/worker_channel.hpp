// A rank's end of the channel. Events may be sent from any thread; requests arrive on a separate thread, so that the
// end of the controlling program is seen at once, whatever the rank is computing.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "wire/event.hpp"
#include "wire/order.hpp"

namespace muster::wire {

class WorkerChannel {
 public:
  // Connects, says hello and waits for the assignment.
  static Result<WorkerChannel> join(const std::filesystem::path& address, int rank, const Hello& hello);
  WorkerChannel(WorkerChannel&&) noexcept;
  WorkerChannel& operator=(WorkerChannel&&) noexcept;
  ~WorkerChannel();

  const Assignment& assignment() const;
  int rank() const;

  // From now on orders are read, and lost is called, on the reading thread, when the controlling program is gone or
  // sends nonsense. To be called once; before it, next_request() has nothing to wait for.
  void listen(std::function<void(const std::string& reason)> lost);

  // Waits as long as the controlling program has not read what was sent before.
  void tell(const EventBody& body);
  // Says that count more requests can be taken. They arrive by next_request().
  void want(int count);
  // Asks for as many as are missing from that number, waits for one, and takes all that arrive until the controlling
  // program has no more for now. Empty: none are left.
  std::vector<Request> gather(std::size_t most);
  // The next of the requests that were wanted; waits for it, which is for ranks that hold none: order.hpp, Pause.
  // Nothing when none are left.
  std::optional<Request> next_request();
  // The same without waiting: nothing when none has arrived. ended says whether none will.
  std::optional<Request> take_request(bool& ended);
  // Requests whose answers are no longer wanted, each reported once.
  std::vector<std::int64_t> take_cancelled();

 private:
  struct State;
  explicit WorkerChannel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::wire

// Which rank has reached which collective: each rank writes into the store, now and then, how many it has entered, what
// the last one was, whether it is still in it, and that it is alive. When one takes too long, the ranks that are behind
// are named: not those that are behind only because they wait, too, while another does not.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "communicate/place.hpp"

namespace muster::communicate {

// Ranks by their numbers in the job.
struct RollCallAnswer {
  std::vector<int> missing;  // behind, and not waiting; all that are behind where all of them wait
  std::vector<int> silent;   // reached it, and have shown no sign of life for long
  std::string mismatch;      // a rank that came to this one with something else, in words; empty: none
};

class RollCall {
 public:
  // Waits until all ranks are there; an Error names those that did not come in time. tick: called now and then on a
  // thread of its own.
  static Result<std::unique_ptr<RollCall>> join(const Place& place, std::chrono::milliseconds timeout,
                                                std::function<void()> tick);
  ~RollCall();

  // What keys of this group begin with: a process may join several times, and all do so in the same order.
  const std::string& prefix() const;
  // This rank enters its next collective; returns its number.
  std::uint64_t enter(std::string description);
  // It waits for no other rank any more.
  void leave();
  // Which ranks are behind that number, by what they have written. wait: before looking, for them to write it.
  RollCallAnswer call(std::uint64_t number, std::chrono::milliseconds wait);
  // How often ranks write.
  std::chrono::milliseconds interval() const;
  // Ends the thread; tick is not called any more.
  void stop();

 private:
  struct State;
  explicit RollCall(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::communicate

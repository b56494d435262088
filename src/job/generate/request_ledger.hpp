// Which requests of a job have no result yet, and which replica has them: when one dies, its requests go to the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/generate/generate_rows.hpp"
#include "wire/order.hpp"

namespace muster::job {

// A replica is one whole model: consecutive ranks that hold its layers together, usually a single one. Its first
// rank asks for work, and when any of its ranks dies, all of it is lost.
inline int replica_of(int rank, int stages) { return rank / stages; }

// A prompt that was given out.
struct OpenRequest {
  wire::Request request;
  OrderedJson id;
  std::int64_t line = 0;      // in the file of prompts
  int deaths = 0;             // of replicas that had it
  std::optional<int> holder;  // absent: to be given out again
};

// Note [Prompts that kill]
// What a dead replica had is given to the others, first of all and as if nothing had happened. What two replicas had
// when they died is under suspicion: one replica finishes what it has, then gets the suspects alone, one by one. If
// that kills it, the prompt is guilty, and named; a replica killed from outside costs the others only the extra work.
class RequestLedger {
 public:
  explicit RequestLedger(int replicas);

  // Whether a replica may have another one now. unread: prompts not given out yet, where that is known: near the
  // end no replica gets more than an equal share of what has no result.
  bool may_take(int replica, std::optional<std::int64_t> unread);
  // One that a dead replica had. To be called before a fresh one is given out.
  std::optional<wire::Request> take_again(int replica);
  // Whether this replica gets only such requests.
  bool tests(int replica) const { return tester_ == replica; }
  void give(int replica, OpenRequest request);

  // The request that a result is for. Absent: it has its result already, or was never given out.
  std::optional<OpenRequest> answered(std::int64_t index);

  struct Loss {
    std::int64_t put_back = 0;          // requests that are to be given out again
    std::optional<OpenRequest> guilty;  // of the death, beyond doubt
  };
  // The replica is gone. A second call changes nothing.
  Loss lose(int replica);

  // Whether a replica other than this one has requests, or some wait to be given out again.
  bool others_have_some(int replica) const;
  std::size_t size() const { return open_.size(); }
  std::size_t bytes() const { return bytes_; }
  std::size_t living() const { return living_.size(); }
  // Those that the most dead replicas had, if that is more than one.
  std::vector<const OpenRequest*> suspects() const;

 private:
  static constexpr int deaths_of_a_suspect = 2;
  std::size_t held_by(int replica) const;

  std::set<int> living_;
  std::map<std::int64_t, OpenRequest> open_;    // by index
  std::map<int, std::set<std::int64_t>> held_;  // by replica
  std::set<std::int64_t> again_;                // to be given out again
  std::set<std::int64_t> suspects_;             // likewise, alone
  std::optional<int> tester_;                   // gets suspects and nothing else
  std::size_t bytes_ = 0;                       // of rows that may have to be given out again
};

}  // namespace muster::job

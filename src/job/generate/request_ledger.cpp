#include "job/generate/request_ledger.hpp"

#include <algorithm>
#include <utility>

namespace muster::job {

RequestLedger::RequestLedger(int replicas) {
  for (int replica = 0; replica < replicas; ++replica) living_.insert(replica);
}

std::size_t RequestLedger::held_by(int replica) const {
  const auto found = held_.find(replica);
  return found == held_.end() ? 0 : found->second.size();
}

bool RequestLedger::may_take(int replica, std::optional<std::int64_t> unread) {
  if (!living_.contains(replica)) return false;
  if (!suspects_.empty() && !tester_) tester_ = replica;
  if (tests(replica)) return held_by(replica) == 0 && !suspects_.empty();
  if (!unread) return true;
  const std::size_t unanswered = open_.size() + static_cast<std::size_t>(*unread);
  const std::size_t share = (unanswered + living_.size() - 1) / living_.size();
  return held_by(replica) < std::max<std::size_t>(share, 1);
}

std::optional<wire::Request> RequestLedger::take_again(int replica) {
  std::set<std::int64_t>& waiting = tests(replica) ? suspects_ : again_;
  if (waiting.empty()) return std::nullopt;
  const std::int64_t index = *waiting.begin();
  waiting.erase(waiting.begin());
  OpenRequest& entry = open_.at(index);
  entry.holder = replica;
  held_[replica].insert(index);
  return entry.request;
}

void RequestLedger::give(int replica, OpenRequest request) {
  const std::int64_t index = request.request.index;
  request.holder = replica;
  bytes_ += request.request.row.size();
  held_[replica].insert(index);
  open_.emplace(index, std::move(request));
}

std::optional<OpenRequest> RequestLedger::answered(std::int64_t index) {
  const auto found = open_.find(index);
  if (found == open_.end()) return std::nullopt;
  OpenRequest entry = std::move(found->second);
  open_.erase(found);
  bytes_ -= entry.request.row.size();
  if (entry.holder) held_[*entry.holder].erase(index);
  again_.erase(index);
  suspects_.erase(index);
  if (tester_ && suspects_.empty() && held_by(*tester_) == 0) tester_.reset();
  return entry;
}

RequestLedger::Loss RequestLedger::lose(int replica) {
  Loss loss;
  if (living_.erase(replica) == 0) return loss;
  const bool tested = tester_ == replica;
  if (tested) tester_.reset();
  for (const std::int64_t index : std::exchange(held_[replica], {})) {
    OpenRequest& entry = open_.at(index);
    if (tested && entry.deaths >= deaths_of_a_suspect) loss.guilty = entry;
    ++entry.deaths;
    entry.holder.reset();
    (entry.deaths >= deaths_of_a_suspect ? suspects_ : again_).insert(index);
    ++loss.put_back;
  }
  return loss;
}

bool RequestLedger::others_have_some(int replica) const { return open_.size() > held_by(replica); }

std::vector<const OpenRequest*> RequestLedger::suspects() const {
  int most = deaths_of_a_suspect;
  for (const auto& [index, entry] : open_) most = std::max(most, entry.deaths);
  std::vector<const OpenRequest*> found;
  for (const auto& [index, entry] : open_)
    if (entry.deaths == most) found.push_back(&entry);
  return found;
}

}  // namespace muster::job

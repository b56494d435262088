#include "generate/sequence_books.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::generate {
namespace {

std::int64_t count_of(const auto& values) { return static_cast<std::int64_t>(values.size()); }

bool is_older(const std::unique_ptr<Sequence>& a, const std::unique_ptr<Sequence>& b) { return a->is_older_than(*b); }

std::int64_t branches_of(const Sequence& sequence) {
  return sequence.is_prompt() ? count_of(sequence.request->branches) : 1;
}

}  // namespace

std::int64_t longest(const Request& request) {
  std::int64_t most = 0;
  for (const Branch& branch : request.branches)
    most = std::max(most, branch.given.empty() ? branch.most_tokens : count_of(branch.given));
  return count_of(request.prompt) + most;
}

SequenceBooks::SequenceBooks(BlockPool& pool, BookSettings settings)
    : pool_(pool), settings_(settings), groups_(settings.groups) {}

void SequenceBooks::add(Request request) {
  if (request.prompt.empty() || request.branches.empty()) throw std::logic_error("a request without prompt or branch");
  if (pool_.blocks_for(longest(request) - 1) > pool_.size())  // the last token's keys are never needed
    throw std::logic_error("a sequence that no cache of this size can hold");
  requests_.push_back(std::make_shared<const Request>(std::move(request)));
}

void SequenceBooks::fill() {
  bring_back();
  start_branches();
  bring_back();  // the last branch of a prompt that is on the host
  admit();
}

std::int64_t SequenceBooks::computed_at_once() const {
  std::int64_t count = 0;
  for (const Group& group : groups_) count += count_of(group);
  return count;
}

// Counted against the most sequences. A prompt that is read takes as many as it has branches.
std::int64_t SequenceBooks::places_taken() const {
  std::int64_t count = 0;
  for (const Group& group : groups_)
    for (const Owned& sequence : group) count += branches_of(*sequence);
  for (const Owned& sequence : evicted_) count += branches_of(*sequence);
  for (const Owned& prompt : ready_) count += count_of(prompt->waiting);
  return count;
}

// One block for each that is computed stays free, since it will soon ask for it; unless there is none.
bool SequenceBooks::is_free(std::int64_t blocks) const {
  const std::int64_t running = computed_at_once();
  return running == 0 || pool_.free() >= blocks + running;
}

void SequenceBooks::enter(Owned sequence) {
  const auto emptiest = std::ranges::min_element(groups_, {}, [](const Group& group) { return group.size(); });
  emptiest->push_back(std::move(sequence));
}

void SequenceBooks::level(std::size_t index) {
  while (true) {
    const auto emptiest = std::ranges::min_element(groups_, {}, [](const Group& group) { return group.size(); });
    if (groups_[index].size() < emptiest->size() + 2) return;
    emptiest->push_back(std::move(groups_[index].back()));
    groups_[index].pop_back();
  }
}

// -- Requests

bool SequenceBooks::admits_prompts() const {
  if (settings_.prefill_patience <= 0) return true;
  bool anything_written = false;
  for (const Group& group : groups_)
    for (const Owned& sequence : group) {
      if (!sequence->is_decoding()) return true;
      anything_written = true;
    }
  const auto most = static_cast<double>(settings_.most_sequences);
  return !anything_written || most - static_cast<double>(places_taken()) >= settings_.prefill_patience * most;
}

// Its prompt; or all of it where one given branch is all that follows.
SequenceBooks::Owned SequenceBooks::first_sequence(const std::shared_ptr<const Request>& request) {
  auto sequence = std::make_unique<Sequence>(Sequence{request, next_age_, {}, request->prompt, 0, BlockList(pool_)});
  const std::vector<std::int32_t>& given = request->branches.front().given;
  if (request->branches.size() > 1 || given.empty()) return sequence;
  sequence->branch = 0;
  sequence->tokens.insert(sequence->tokens.end(), given.begin(), given.end());
  return sequence;
}

void SequenceBooks::admit() {
  if (!evicted_.empty() || !admits_prompts()) return;
  while (!requests_.empty() && places_taken() < settings_.most_sequences) {
    Owned sequence = first_sequence(requests_.front());
    if (!is_free(pool_.blocks_for(sequence->reach())) || !make_room(*sequence, sequence->reach())) return;
    ++next_age_;
    requests_.pop_front();
    enter(std::move(sequence));
  }
}

// -- Branches

void SequenceBooks::prompt_is_read(Sequence& prompt) {
  Owned owned = take_from_group(prompt);
  if (!owned->waiting.empty()) ready_.push_back(std::move(owned));
}

void SequenceBooks::start_branches() {
  while (!ready_.empty() && computed_at_once() + count_of(evicted_) < settings_.most_sequences) {
    if (!start_branch(*ready_.front())) return;
    if (ready_.front()->waiting.empty()) ready_.pop_front();
  }
}

bool SequenceBooks::start_branch(Sequence& prompt) {
  const WaitingBranch& next = prompt.waiting.front();
  auto branch = std::make_unique<Sequence>(
      Sequence{prompt.request, prompt.age, next.branch, prompt.tokens, prompt.computed, BlockList(pool_)});
  const std::vector<std::int32_t>& given = branch->its_branch().given;
  branch->tokens.insert(branch->tokens.end(), given.begin(), given.end());
  if (next.first) branch->tokens.push_back(*next.first);
  if (!give_blocks(prompt, *branch)) return false;
  prompt.waiting.erase(prompt.waiting.begin());
  if (branch->on_host.empty()) {
    enter(std::move(branch));
  } else {
    branch->evicted = true;
    evicted_.push_back(std::move(branch));
    std::ranges::sort(evicted_, is_older);
  }
  return true;
}

// The last branch takes all, wherever it is. With no block free for a copy, and nothing running that could free one,
// the prompt goes to the host and the branch takes its blocks.
bool SequenceBooks::give_blocks(Sequence& prompt, Sequence& branch) {
  if (prompt.waiting.size() == 1) {
    branch.blocks = std::move(prompt.blocks);
    branch.on_host = std::move(prompt.on_host);
    return true;
  }
  const std::int64_t shared = prompt.on_host.empty() ? prompt.computed / pool_.block_tokens() : -1;
  if (!is_free(pool_.blocks_for(branch.reach()) - shared)) return false;
  if (!prompt.on_host.empty() && !come_back(prompt)) return false;
  const auto full = static_cast<std::size_t>(prompt.computed / pool_.block_tokens());
  const bool copies = prompt.computed % pool_.block_tokens() != 0;
  if (copies && pool_.free() == 0) {
    traffic_.save(prompt);
    branch.blocks = std::move(prompt.blocks);
    return true;
  }
  branch.blocks.share(std::span(prompt.blocks.blocks()).first(full));
  if (!branch.blocks.reserve(prompt.computed)) throw std::logic_error("a block that was free is not");
  if (copies) traffic_.copy(prompt.blocks.blocks()[full], branch.blocks.blocks()[full]);
  return true;
}

// -- Pre-emption

// With room for its next step: a sequence that comes back makes progress.
bool SequenceBooks::come_back(Sequence& sequence) {
  if (!is_free(pool_.blocks_for(sequence.reach())) || !make_room(sequence, sequence.reach())) return false;
  traffic_.restore(sequence);
  return true;
}

void SequenceBooks::bring_back() {
  while (!evicted_.empty() && come_back(*evicted_.front())) {
    Owned oldest = std::move(evicted_.front());
    evicted_.erase(evicted_.begin());
    oldest->evicted = false;
    enter(std::move(oldest));
  }
}

bool SequenceBooks::make_room(Sequence& sequence, std::int64_t tokens) {
  while (!sequence.blocks.reserve(tokens)) {
    Sequence* const youngest = youngest_to_evict();
    if (youngest == nullptr) return false;
    evict(*youngest);
    if (youngest == &sequence) return false;
  }
  return true;
}

Sequence* SequenceBooks::youngest_to_evict() const {
  Sequence* youngest = nullptr;
  const auto look_at = [&](const auto& sequences) {
    for (const Owned& sequence : sequences)
      if (!sequence->under_way && !sequence->blocks.blocks().empty() &&
          (youngest == nullptr || youngest->is_older_than(*sequence)))
        youngest = sequence.get();
  };
  for (const Group& group : groups_) look_at(group);
  look_at(ready_);
  return youngest;
}

void SequenceBooks::evict(Sequence& sequence) {
  traffic_.save(sequence);
  sequence.blocks.clear();
  if (!sequence.waiting.empty()) return;  // stays with those that are read
  sequence.evicted = true;
  evicted_.push_back(take_from_group(sequence));
  std::ranges::sort(evicted_, is_older);
}

// -- The end

SequenceBooks::Owned SequenceBooks::take_from_group(const Sequence& sequence) {
  for (Group& group : groups_) {
    const auto found = std::ranges::find(group, &sequence, [](const Owned& owned) { return owned.get(); });
    if (found == group.end()) continue;
    Owned owned = std::move(*found);
    group.erase(found);
    return owned;
  }
  throw std::logic_error("a sequence that is in no group");
}

void SequenceBooks::remove(Sequence& sequence) { take_from_group(sequence); }

bool SequenceBooks::end_branch(std::int64_t index, std::int64_t sample) {
  const auto is_meant = [&](const Branch& branch) { return branch.index == index && branch.sample == sample; };
  for (const Group& group : groups_)
    for (const Owned& sequence : group)
      if (sequence->branch && is_meant(sequence->its_branch())) {
        remove(*sequence);
        return true;
      }
  for (auto prompt = ready_.begin(); prompt != ready_.end(); ++prompt) {
    std::vector<WaitingBranch>& waiting = (*prompt)->waiting;
    const auto found = std::ranges::find_if(
        waiting, [&](const WaitingBranch& each) { return is_meant((*prompt)->request->branches[each.branch]); });
    if (found == waiting.end()) continue;
    waiting.erase(found);
    if (waiting.empty()) ready_.erase(prompt);
    return true;
  }
  return false;
}

}  // namespace muster::generate

#include "communicate/roll_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/duration.hpp"
#include "system/socket.hpp"
#include "base/text.hpp"
#include "communicate/failure_text.hpp"
#include "rendezvous/store_client.hpp"

namespace muster::communicate {
namespace {

using std::chrono::milliseconds;

using Clock = std::chrono::steady_clock;

// What a rank writes: "17 in 3 all_reduce of 1024 Float".
struct Entry {
  std::uint64_t number = 0;  // of its last collective; 0: none yet
  bool inside = false;       // it has not left that one
  std::uint64_t beat = 0;    // counts up while it waits: it lives
  std::string description;
  bool operator==(const Entry&) const = default;
};

std::string print(const Entry& entry) {
  return fmt::format("{} {} {} {}", entry.number, entry.inside ? "in" : "out", entry.beat, entry.description);
}

Entry parse_entry(const std::string& text) {
  const std::vector<std::string> words = split(text, ' ');
  if (words.size() < 3) return {};
  return {parse_number<std::uint64_t>(words[0]).value_or(0), words[1] == "in",
          parse_number<std::uint64_t>(words[2]).value_or(0), join(std::span(words).subspan(3), " ")};
}

// What was last read of a rank, and since when it is so.
struct Sighting {
  Entry entry;
  Clock::time_point since;
};

}  // namespace

struct RollCall::State {
  State(rendezvous::StoreClient connected, const Place& at, milliseconds longest)
      : place(at),
        timeout(longest),
        interval(std::clamp(longest / 16, milliseconds(20), milliseconds(500))),
        store(std::move(connected)),
        sightings(static_cast<std::size_t>(at.size)) {}

  const Place place;
  const milliseconds timeout;
  const milliseconds interval;

  std::mutex store_mutex;  // guards the three that follow
  rendezvous::StoreClient store;
  Entry written;
  std::vector<Sighting> sightings;  // by rank

  std::string prefix;
  std::function<void()> tick;

  std::mutex mutex;  // guards what follows
  std::condition_variable_any changed;
  Entry own;
  Clock::time_point entered;
  std::jthread thread;

  std::string key(const char* kind, int rank) const { return fmt::format("{}/{}/{}", prefix, kind, rank); }
  Result<void> gather();
  void write();
  bool look_at(int rank);
  void look_around();
  void run(const std::stop_token& stop);
};

// The store says only that a wait did not end; which ranks are missing is asked for afterwards.
Result<void> RollCall::State::gather() {
  if (auto said = store.set(key("here", place.rank), "1"); !said) return said;
  std::vector<std::string> keys;
  for (int rank = 0; rank < place.size; ++rank) keys.push_back(key("here", rank));
  const auto waited = store.wait(keys, timeout);
  if (waited) return {};
  std::vector<int> missing;
  for (int rank = 0; rank < place.size; ++rank) {
    const auto there = store.check({&keys[static_cast<std::size_t>(rank)], 1});
    if (!there) return waited;
    if (!*there) missing.push_back(place.job_rank(rank));
  }
  if (missing.empty()) return {};
  return Error{Error::Kind::failed,
               fmt::format("{} of {} did not join within {}", list_ranks(missing), place.size, to_string(timeout)),
               "look at what these ranks wrote; they have ended, hang, or cannot reach the store"};
}

void RollCall::State::write() {
  Entry entry;
  {
    const std::lock_guard guard(mutex);
    if (own.inside) ++own.beat;
    entry = own;
  }
  const std::lock_guard guard(store_mutex);
  if (entry == written) return;
  if (store.set(key("at", place.rank), print(entry))) written = entry;
}

// False where the store does not answer.
bool RollCall::State::look_at(int rank) {
  const std::string wanted = key("at", rank);
  const auto there = store.check({&wanted, 1});
  if (!there) return false;
  Entry entry;
  if (*there) {
    const auto text = store.get(wanted);
    if (!text) return false;
    entry = parse_entry(*text);
  }
  Sighting& sighting = sightings[static_cast<std::size_t>(rank)];
  if (sighting.since == Clock::time_point() || sighting.entry != entry) sighting = {entry, Clock::now()};
  return true;
}

// Once this rank has waited for long: should it time out, it is then known which of the others show signs of life.
void RollCall::State::look_around() {
  {
    const std::lock_guard guard(mutex);
    if (!own.inside || Clock::now() - entered < timeout / 2) return;
  }
  const std::lock_guard guard(store_mutex);
  for (int rank = 0; rank < place.size; ++rank)
    if (rank != place.rank && !look_at(rank)) return;
}

void RollCall::State::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, stop, interval, [] { return false; });
    }
    if (stop.stop_requested()) return;
    write();
    look_around();
    if (tick) tick();
  }
}

Result<std::unique_ptr<RollCall>> RollCall::join(const Place& place, milliseconds timeout, std::function<void()> tick) {
  const auto addresses = resolve(place.store_address, place.store_port);
  if (!addresses) return addresses.error();
  auto store = rendezvous::StoreClient::connect(*addresses, timeout);
  if (!store) return store.error();
  // Counted separately for each rank: the first group of all ranks is their first, and so on.
  const auto group = store->add(fmt::format("muster/communicate/{}groups/{}", place.group, place.rank), 1);
  if (!group) return group.error();
  auto state = std::make_unique<State>(std::move(*store), place, timeout);
  state->prefix = fmt::format("muster/communicate/{}{}", place.group, *group);
  state->tick = std::move(tick);
  if (auto gathered = state->gather(); !gathered) return gathered.error();
  state->thread = std::jthread([raw = state.get()](const std::stop_token& stop) { raw->run(stop); });
  return std::unique_ptr<RollCall>(new RollCall(std::move(state)));
}

RollCall::RollCall(std::unique_ptr<State> state) : state_(std::move(state)) {}
RollCall::~RollCall() = default;

const std::string& RollCall::prefix() const { return state_->prefix; }
milliseconds RollCall::interval() const { return state_->interval; }
void RollCall::stop() {
  state_->thread.request_stop();
  if (state_->thread.joinable()) state_->thread.join();
}

std::uint64_t RollCall::enter(std::string description) {
  const std::lock_guard guard(state_->mutex);
  state_->own.description = std::move(description);
  state_->own.inside = true;
  state_->entered = Clock::now();
  return ++state_->own.number;
}

void RollCall::leave() {
  const std::lock_guard guard(state_->mutex);
  state_->own.inside = false;
}

RollCallAnswer RollCall::call(std::uint64_t number, milliseconds wait) {
  state_->write();
  std::this_thread::sleep_for(wait);
  std::string description;
  {
    const std::lock_guard guard(state_->mutex);
    if (state_->own.number == number) description = state_->own.description;
  }
  RollCallAnswer answer;
  std::vector<int> behind;
  const std::lock_guard guard(state_->store_mutex);
  for (int rank = 0; rank < state_->place.size; ++rank) {
    if (rank == state_->place.rank) continue;
    if (!state_->look_at(rank)) break;  // the store is gone, and with it the controlling program
    const auto& [entry, since] = state_->sightings[static_cast<std::size_t>(rank)];
    if (entry.number == number && !description.empty() && entry.description != description &&
        answer.mismatch.empty())
      answer.mismatch = mismatch_text(state_->place.job_rank(state_->place.rank), description,
                                          state_->place.job_rank(rank), entry.description);
    const bool recent = Clock::now() - since < state_->timeout / 4;
    if (entry.number >= number) {
      if (!recent) answer.silent.push_back(state_->place.job_rank(rank));
      continue;
    }
    behind.push_back(state_->place.job_rank(rank));
    if (!entry.inside || !recent) answer.missing.push_back(state_->place.job_rank(rank));
  }
  if (answer.missing.empty()) answer.missing = std::move(behind);
  return answer;
}

}  // namespace muster::communicate

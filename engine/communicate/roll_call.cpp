#include "communicate/roll_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/duration.hpp"
#include "base/socket.hpp"
#include "base/text.hpp"
#include "communicate/failure_text.hpp"
#include "rendezvous/store_client.hpp"

namespace muster::communicate {
namespace {

using std::chrono::milliseconds;

// What a rank writes: "17 all_reduce of 1024 Float".
struct Entry {
  std::uint64_t number = 0;  // 0: none yet
  std::string description;
};

Entry parse_entry(const std::string& text) {
  const auto blank = text.find(' ');
  const auto number = parse_number<std::uint64_t>(std::string_view(text).substr(0, blank));
  return {number.value_or(0), blank == std::string::npos ? "" : text.substr(blank + 1)};
}

}  // namespace

struct RollCall::State {
  State(rendezvous::StoreClient connected, const Place& at, milliseconds timeout)
      : store(std::move(connected)),
        place(at),
        interval(std::clamp(timeout / 4, milliseconds(20), milliseconds(500))) {}

  std::mutex store_mutex;  // guards store and written
  rendezvous::StoreClient store;
  std::uint64_t written = 0;

  const Place place;
  const milliseconds interval;
  std::string prefix;
  std::function<void()> tick;

  std::mutex mutex;  // guards what follows
  std::condition_variable_any changed;
  Entry own;
  std::jthread thread;

  std::string key(const char* kind, int rank) const { return fmt::format("{}/{}/{}", prefix, kind, rank); }
  Result<void> gather(milliseconds timeout);
  void write();
  std::optional<Entry> read(int rank);
  void run(const std::stop_token& stop);
};

// The store says only that a wait did not end; who is missing is asked for afterwards.
Result<void> RollCall::State::gather(milliseconds timeout) {
  if (auto said = store.set(key("here", place.rank), "1"); !said) return said;
  std::vector<std::string> keys;
  for (int rank = 0; rank < place.size; ++rank) keys.push_back(key("here", rank));
  const auto waited = store.wait(keys, timeout);
  if (waited) return {};
  std::vector<int> missing;
  for (int rank = 0; rank < place.size; ++rank) {
    const auto there = store.check({&keys[static_cast<std::size_t>(rank)], 1});
    if (!there) return waited;
    if (!*there) missing.push_back(rank);
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
    entry = own;
  }
  const std::lock_guard guard(store_mutex);
  if (entry.number == written) return;
  if (store.set(key("at", place.rank), fmt::format("{} {}", entry.number, entry.description))) written = entry.number;
}

std::optional<Entry> RollCall::State::read(int rank) {
  const std::lock_guard guard(store_mutex);
  const std::string wanted = key("at", rank);
  const auto there = store.check({&wanted, 1});
  if (!there) return std::nullopt;
  if (!*there) return Entry{};
  const auto text = store.get(wanted);
  return text ? std::optional(parse_entry(*text)) : std::nullopt;
}

void RollCall::State::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, stop, interval, [] { return false; });
    }
    if (stop.stop_requested()) return;
    write();
    if (tick) tick();
  }
}

Result<std::unique_ptr<RollCall>> RollCall::join(const Place& place, milliseconds timeout, std::function<void()> tick) {
  const auto addresses = resolve(place.store_address, place.store_port);
  if (!addresses) return addresses.error();
  auto store = rendezvous::StoreClient::connect(*addresses, timeout);
  if (!store) return store.error();
  // Counted for each rank by itself: the first group of all ranks is their first, and so on.
  const auto group = store->add(fmt::format("muster/communicate/groups/{}", place.rank), 1);
  if (!group) return group.error();
  auto state = std::make_unique<State>(std::move(*store), place, timeout);
  state->prefix = fmt::format("muster/communicate/{}", *group);
  state->tick = std::move(tick);
  if (auto gathered = state->gather(timeout); !gathered) return gathered.error();
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
  return ++state_->own.number;
}

Attendance RollCall::call(std::uint64_t number, milliseconds wait) {
  state_->write();
  std::this_thread::sleep_for(wait);
  std::string description;
  {
    const std::lock_guard guard(state_->mutex);
    if (state_->own.number == number) description = state_->own.description;
  }
  Attendance attendance;
  for (int rank = 0; rank < state_->place.size; ++rank) {
    if (rank == state_->place.rank) continue;
    const auto entry = state_->read(rank);
    if (!entry) break;  // the store is gone, and with it the controlling program
    if (entry->number < number) attendance.missing.push_back(rank);
    if (entry->number == number && !description.empty() && entry->description != description &&
        attendance.mismatch.empty())
      attendance.mismatch = mismatch_text(state_->place.rank, description, rank, entry->description);
  }
  return attendance;
}

}  // namespace muster::communicate

#include "rendezvous/key_value_store.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/key_value_table.hpp"
#include "rendezvous/key_waiters.hpp"
#include "rendezvous/store_protocol.hpp"

namespace muster::rendezvous {
namespace {

// Larger buffers are given back after use.
constexpr std::size_t kept_reply_bytes = std::size_t{1} << 20;

// Note [Woken for a queue]
// A value that is pushed wakes one client of those that wait for the queue, which then sends queue_pop. It may not: it
// may have given up waiting in the same moment, or be dead. Then the value would lie there while the others sleep on.
// So a client that was woken for a queue owes a queue_pop as its next request, and when it does anything else, or goes,
// the next one is woken. (One that comes in between may still be faster: a pop can find nothing, as with torch's
// server.)
struct Client {
  bool validated = false;
  std::size_t needed_bytes = 0;         // before what it sent last can be complete
  std::optional<std::string> owes_pop;  // Note [Woken for a queue]
};

class TorchStore final : public KeyValueStore {
 public:
  TorchStore(Outbox& outbox, StoreLimits limits) : outbox_(outbox), limits_(limits), budget_(limits.total_bytes) {}

  void opened(ConnectionId connection, const std::string&) override { clients_.try_emplace(connection); }

  std::optional<std::size_t> received(ConnectionId connection, std::string_view bytes) override {
    Client& client = clients_.at(connection);
    if (bytes.size() < client.needed_bytes) return 0;
    client.needed_bytes = 0;
    current_ = connection;
    const auto used = answer_all(client, bytes);
    if (!reply_.empty()) outbox_.send(connection, reply_);
    reply_.clear();
    if (reply_.capacity() > kept_reply_bytes) reply_ = std::string();
    current_.reset();
    return used;
  }

  void closed(ConnectionId connection) override {
    for (KeyWaiters* waiters : {&key_waiters_, &barrier_waiters_}) waiters->remove(connection);
    const auto client = clients_.find(connection);
    const auto owed = std::exchange(client->second.owes_pop, std::nullopt);
    clients_.erase(client);
    if (owed) pass_on(*owed);
  }

  std::optional<Clock::time_point> tick(Clock::time_point) override { return std::nullopt; }

  void clear() override {
    table_.clear();
    for (KeyWaiters* waiters : {&key_waiters_, &barrier_waiters_}) waiters->clear();
    for (auto& [connection, client] : clients_) client.owes_pop.reset();
  }
  std::size_t size() const override { return table_.size(); }
  std::size_t bytes() const override { return budget_.used(); }

 private:
  std::optional<std::size_t> answer_all(Client& client, std::string_view bytes) {
    std::size_t used = 0;
    while (used < bytes.size()) {
      const Decoding decoding = decode(bytes.substr(used), limits_, request_);
      if (decoding.outcome == Decoding::Outcome::malformed) return std::nullopt;
      if (decoding.outcome == Decoding::Outcome::incomplete) {
        client.needed_bytes = decoding.size;
        break;
      }
      if (!(client.validated ? answer(client) : validate(client))) return std::nullopt;
      used += decoding.size;
    }
    return used;
  }

  bool validate(Client& client) {
    client.validated = request_.command == StoreCommand::validate && request_.number == store_magic;
    if (client.validated) outbox_.trust(*current_);
    return client.validated;
  }

  // Does what request_ asks for, and appends to reply_. False: not allowed.
  bool answer(Client& client) {
    if (client.owes_pop) settle_owed_pop(client);
    switch (request_.command) {
      case StoreCommand::validate:
        return false;
      case StoreCommand::set:
        return written(request_.key, table_.set(request_.key, request_.value));
      case StoreCommand::compare_set:
        return compare_set();
      case StoreCommand::get:
        return reply_text(table_.get(request_.key).value_or(""));
      case StoreCommand::add:
        return add();
      case StoreCommand::check:
        return reply(all_there() ? Readiness::ready : Readiness::not_ready);
      case StoreCommand::wait:
        return wait();
      case StoreCommand::number_of_keys:
        return reply_count(table_.size());
      case StoreCommand::delete_key:
        return reply_count(table_.erase(request_.key) ? 1 : 0);
      case StoreCommand::append:
        return written(request_.key, table_.append(request_.key, request_.value));
      case StoreCommand::multiple_get:
        return std::ranges::all_of(request_.keys,
                                   [&](std::string_view key) { return reply_text(table_.get(key).value_or("")); });
      case StoreCommand::multiple_set:
        return multiple_set();
      case StoreCommand::cancel_wait:
        for (KeyWaiters* waiters : {&key_waiters_, &barrier_waiters_}) waiters->remove(*current_);
        return reply(WaitEnd::cancelled);
      case StoreCommand::ping:
        return reply_number(request_.number);
      case StoreCommand::queue_push:
        return queue_push();
      case StoreCommand::queue_pop:
        return queue_pop();
      case StoreCommand::queue_length:
        return reply_count(table_.queue_length(request_.key));
      case StoreCommand::list_keys:
        return list_keys();
      case StoreCommand::barrier:
        return barrier();
    }
    return false;
  }

  bool compare_set() {
    const auto value = table_.compare_set(request_.key, request_.value, request_.desired);
    if (!value) return false;
    written(request_.key, table_.get(request_.key).has_value());
    return reply_text(*value);
  }

  bool add() {
    const auto sum = table_.add(request_.key, request_.amount);
    return written(request_.key, sum.has_value()) && reply_number(*sum);
  }

  bool wait() {
    if (all_there()) return reply(WaitEnd::over);
    std::erase_if(request_.keys, [&](std::string_view key) { return table_.has(key); });
    return !is_waiting() && key_waiters_.add(*current_, request_.keys);
  }

  bool multiple_set() {
    for (std::size_t i = 0; i < request_.keys.size(); ++i)
      if (!written(request_.keys[i], table_.set(request_.keys[i], request_.values[i]))) return false;
    return true;
  }

  bool queue_push() {
    if (!table_.push(request_.key, request_.value)) return false;
    wake_one(request_.key);
    return true;
  }

  bool queue_pop() {
    if (!reply_count(table_.queue_length(request_.key))) return false;
    const auto value = table_.pop(request_.key);
    return !value || reply_text(*value);
  }

  bool list_keys() {
    if (!reply_count(table_.size())) return false;
    return std::ranges::all_of(table_.values(), [&](const auto& entry) { return reply_text(entry.first); });
  }

  // The counter is a key like any other, so the first arrival ends waits for it; those at the barrier wait for the
  // last.
  bool barrier() {
    if (is_waiting()) return false;
    const auto count = table_.add(request_.key, 1);
    if (!count) return false;
    wake(key_waiters_.key_came(request_.key));
    if (*count < request_.amount) return barrier_waiters_.add(*current_, {&request_.key, 1});
    wake(barrier_waiters_.key_came(request_.key));
    return reply(WaitEnd::over);
  }

  // One pending wait per connection: its replies could not be told apart.
  bool is_waiting() const { return key_waiters_.is_waiting(*current_) || barrier_waiters_.is_waiting(*current_); }

  bool all_there() const {
    return std::ranges::all_of(request_.keys, [&](std::string_view key) { return table_.has(key); });
  }

  // Where a key was stored, all clients that wait for it, at a barrier as well, are woken before the client that stored
  // it gets its reply, which matters where it waited itself. Returns stored.
  bool written(std::string_view key, bool stored) {
    if (!stored) return false;
    wake(key_waiters_.key_came(key));
    wake(barrier_waiters_.key_came(key));
    return true;
  }

  void wake(const std::vector<ConnectionId>& connections) {
    for (const ConnectionId connection : connections) wake(connection);
  }

  void wake(ConnectionId connection) {
    constexpr char over = static_cast<char>(WaitEnd::over);
    if (connection == current_)
      reply_.push_back(over);  // behind its replies so far
    else
      outbox_.send(connection, {&over, 1});
  }

  void wake_one(std::string_view queue) {
    const auto connection = key_waiters_.key_came_for_one(queue);
    if (!connection) return;
    clients_.at(*connection).owes_pop = queue;
    wake(*connection);
  }

  void settle_owed_pop(Client& client) {
    const std::string owed = *std::exchange(client.owes_pop, std::nullopt);
    const bool pops = request_.command == StoreCommand::queue_pop && request_.key == owed;
    if (!pops) pass_on(owed);
  }

  void pass_on(const std::string& queue) {
    if (table_.queue_length(queue) > 0) wake_one(queue);
  }

  // ---- parts of the reply; false: it would be longer than allowed ----

  bool has_room(std::size_t bytes) const {
    return reply_.size() <= limits_.reply_bytes && bytes <= limits_.reply_bytes - reply_.size();
  }
  template <class ByteCode>
  bool reply(ByteCode code) {
    if (!has_room(1)) return false;
    append_byte(reply_, static_cast<std::uint8_t>(code));
    return true;
  }
  template <class Integer>
  bool reply_number(Integer number) {
    if (!has_room(sizeof number)) return false;
    append_number(reply_, number);
    return true;
  }
  bool reply_count(std::size_t count) { return reply_number(static_cast<std::int64_t>(count)); }
  bool reply_text(std::string_view text) {
    if (!has_room(sizeof(std::uint64_t) + text.size())) return false;
    append_text(reply_, text);
    return true;
  }

  Outbox& outbox_;
  const StoreLimits limits_;
  ByteBudget budget_;
  KeyValueTable table_{budget_};
  KeyWaiters key_waiters_{budget_};
  KeyWaiters barrier_waiters_{budget_};
  std::unordered_map<ConnectionId, Client> clients_;
  // While a connection is served:
  std::optional<ConnectionId> current_;
  StoreRequest request_;
  std::string reply_;
};

}  // namespace

std::unique_ptr<KeyValueStore> KeyValueStore::make(Outbox& outbox, StoreLimits limits) {
  return std::make_unique<TorchStore>(outbox, limits);
}

}  // namespace muster::rendezvous

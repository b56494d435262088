// Talks nonsense to what listens on the port of a run: store_fuzz [--messages N] [--seed S]. Messages that are right
// must be answered as a simple model answers them, however they are cut into pieces; messages that are not must harm
// nobody. A crash, a sanitizer report, a wrong answer or a message that takes far too long ends it.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "collecting_outbox.hpp"
#include "fuzz/fuzz_frame.hpp"
#include "rendezvous/agent_message.hpp"
#include "rendezvous/key_value_store.hpp"
#include "rendezvous/membership.hpp"
#include "rendezvous/sealed_channel.hpp"
#include "rendezvous/store_protocol.hpp"
#include "store_model.hpp"

namespace muster::rendezvous {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  bool one_in(std::size_t times) { return below(times) == 0; }
  char byte() { return static_cast<char>(random_()); }
  std::uint64_t number() { return random_(); }
  template <class Container>
  const auto& of(const Container& all) {
    return all[below(all.size())];
  }

 private:
  std::mt19937_64 random_;
};

constexpr std::size_t steps_per_conversation = 200;

// ---- messages of store clients ----

// Few keys, so that clients meet.
const std::vector<std::string> key_pool{"a", "b", "c", "", "queue", "barrier"};
const std::vector<std::string> value_pool{"",
                                          "0",
                                          "12",
                                          "-3",
                                          " 7x",
                                          "words",
                                          "9223372036854775807",
                                          std::string("\0\1\2", 3),
                                          "a long value that does not fit into the string itself"};

std::vector<std::string_view> some_of(const std::vector<std::string>& pool, std::size_t count, Chance& chance) {
  std::vector<std::string_view> some;
  while (some.size() < count) some.push_back(chance.of(pool));
  return some;
}

StoreRequest random_request(Chance& chance) {
  StoreRequest request;
  do request.command = static_cast<StoreCommand>(1 + chance.below(store_command_count - 1));
  while (request.command == StoreCommand::list_keys);
  request.key = chance.of(key_pool);
  request.value = chance.of(value_pool);
  request.desired = chance.of(value_pool);
  request.amount =
      chance.one_in(20) ? static_cast<std::int64_t>(chance.number()) : static_cast<std::int64_t>(chance.below(4));
  request.number = static_cast<std::uint32_t>(chance.number());
  request.keys = some_of(key_pool, chance.below(5), chance);
  request.values = some_of(value_pool, request.keys.size(), chance);
  return request;
}

// ---- right messages, in any pieces, from several clients at once ----

class RightConversation {
 public:
  explicit RightConversation(Chance& chance) : chance_(chance) {
    for (std::size_t i = 0; i < 4; ++i) open();
  }

  void go_on() {
    const auto at = std::next(clients_.begin(), static_cast<std::ptrdiff_t>(chance_.below(clients_.size())));
    Client& client = at->second;
    if (chance_.one_in(60)) return close(at->first);
    if (client.left.empty()) say(client, random_request(chance_));
    for (std::size_t more = chance_.below(3); more > 0; --more) say(client, random_request(chance_));
    const std::size_t size = chance_.one_in(3) ? client.left.size() : 1 + chance_.below(client.left.size());
    deliver(at->first, client, size);
  }
  std::size_t messages() const { return messages_; }

 private:
  struct Client {
    std::string left;                                           // not delivered yet
    std::string unused;                                         // delivered
    std::deque<std::pair<std::size_t, StoreRequest>> requests;  // of left: where each ends
  };

  void open() {
    const ConnectionId id{++last_};
    store_->opened(id, "");
    std::string hello;
    encode({.command = StoreCommand::validate, .number = store_magic}, hello);
    require(store_->received(id, hello) == hello.size(), "a greeting was not taken");
    clients_.try_emplace(id);
  }

  void close(ConnectionId id) {
    clients_.erase(id);
    store_->closed(id);
    model_.close(id);
    outbox_.forget(id);
    open();
    compare();
  }

  void say(Client& client, const StoreRequest& request) {
    encode(request, client.left);
    client.requests.emplace_back(client.left.size(), request);
    ++messages_;
  }

  void deliver(ConnectionId id, Client& client, std::size_t size) {
    client.unused.append(client.left, 0, size);
    client.left.erase(0, size);
    bool welcome = true;
    for (; welcome && !client.requests.empty() && client.requests.front().first <= size; client.requests.pop_front())
      welcome = model_.ask(id, client.requests.front().second);
    for (auto& [end, request] : client.requests) end -= std::min(end, size);
    const auto used = store_->received(id, client.unused);
    require(used.has_value() == welcome, "the store and the model do not agree on whom to close");
    compare();
    if (!welcome) return close(id);
    require(*used <= client.unused.size(), "more was used than there is");
    client.unused.erase(0, *used);
    require(!client.requests.empty() || client.unused.empty(), "a whole request was not taken");
  }

  void compare() {
    for (const auto& [id, client] : clients_)
      require(outbox_.take(id) == std::exchange(model_.told[id], std::string()),
              "the store and the model do not agree");
  }

  Chance& chance_;
  CollectingOutbox outbox_;
  std::unique_ptr<KeyValueStore> store_ = KeyValueStore::make(outbox_);
  StoreModel model_;
  std::map<ConnectionId, Client> clients_;
  std::uint64_t last_ = 0;
  std::size_t messages_ = 0;
};

// ---- wrong messages ----

void damage(std::string& bytes, Chance& chance) {
  const std::size_t at = chance.below(bytes.size() + 1);
  switch (chance.below(7)) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << chance.below(8)));
      return;
    case 1:
      bytes.resize(at);
      return;
    case 2:
      bytes.erase(at, chance.below(9));
      return;
    case 3:
      bytes.insert(at, 1 + chance.below(9), chance.byte());
      return;
    case 4: {  // an absurd length, where one may be
      constexpr std::array<std::uint64_t, 6> lengths{~0ULL, 1ULL << 63, 1ULL << 32, 1ULL << 20, 65, 17};
      std::string length;
      append_number(length, static_cast<std::int64_t>(chance.of(lengths)));
      bytes.replace(std::min(at, bytes.size()), length.size(), length);
      return;
    }
    case 5:
      bytes.insert(at, bytes.substr(chance.below(bytes.size() + 1), chance.below(40)));
      return;
    default:
      if (!bytes.empty()) bytes[0] = static_cast<char>(chance.below(24));
  }
}

class WrongConversation {
 public:
  explicit WrongConversation(Chance& chance) : chance_(chance) {
    for (std::size_t i = 0; i < 4; ++i) open();
  }

  void go_on() {
    const auto at = std::next(clients_.begin(), static_cast<std::ptrdiff_t>(chance_.below(clients_.size())));
    if (chance_.one_in(100)) store_->clear();
    if (chance_.one_in(40)) return close(at->first);
    std::string bytes;
    for (std::size_t count = 1 + chance_.below(3); count > 0; --count, ++messages_)
      encode(random_request(chance_), bytes);
    if (chance_.one_in(2))
      for (std::size_t count = 1 + chance_.below(3); count > 0; --count) damage(bytes, chance_);
    while (!bytes.empty() && deliver(at->first, at->second, bytes)) {
    }
  }
  std::size_t messages() const { return messages_; }

  // Nothing may be left of a conversation.
  void end() {
    while (!clients_.empty()) {
      store_->closed(clients_.begin()->first);
      clients_.erase(clients_.begin());
    }
    store_->clear();
    require(store_->bytes() == 0 && store_->size() == 0, "something is left of an empty store");
  }

 private:
  void open() {
    const ConnectionId id{++last_};
    store_->opened(id, "");
    std::string& unused = clients_[id];
    std::string hello;
    encode({.command = StoreCommand::validate, .number = store_magic}, hello);
    if (chance_.one_in(50)) damage(hello, chance_);
    static_cast<void>(deliver(id, unused, hello));
  }

  void close(ConnectionId id) {
    clients_.erase(id);
    store_->closed(id);
    outbox_.forget(id);
    open();
  }

  // Some of bytes. False: the client has been closed.
  bool deliver(ConnectionId id, std::string& unused, std::string& bytes) {
    const std::size_t size = chance_.one_in(2) ? bytes.size() : 1 + chance_.below(bytes.size());
    unused.append(bytes, 0, size);
    bytes.erase(0, size);
    // Read from a block of its own size, so that a sanitizer sees a step beyond it.
    const std::vector<char> block(unused.begin(), unused.end());
    const auto used = store_->received(id, {block.data(), block.size()});
    require(store_->bytes() <= limits_.total_bytes, "the store holds more than it may");
    // Each end of a wait is a byte more, and each wait takes more than that to ask for.
    require(outbox_.take(id).size() <= limits_.reply_bytes + block.size() + 1, "a reply is longer than it may be");
    if (!used) {
      close(id);
      return false;
    }
    require(*used <= unused.size(), "more was used than there is");
    unused.erase(0, *used);
    return true;
  }

  Chance& chance_;
  CollectingOutbox outbox_;
  const StoreLimits limits_{
      .key_bytes = 16, .value_bytes = 64, .keys_per_request = 8, .total_bytes = 4096, .reply_bytes = 1024};
  std::unique_ptr<KeyValueStore> store_ = KeyValueStore::make(outbox_, limits_);
  std::map<ConnectionId, std::string> clients_;  // with what of theirs was not used yet
  std::uint64_t last_ = 0;
  std::size_t messages_ = 0;
};

// ---- messages of agents ----

AgentMessage random_agent_message(Chance& chance) {
  const int round = static_cast<int>(chance.below(4)) - 1;
  switch (chance.below(7)) {
    case 0: {
      Join join;
      join.run_id = chance.one_in(8) ? "another" : "run";
      join.host = fmt::format("node-{}", chance.below(4));
      join.pid = static_cast<std::int64_t>(chance.below(6));
      join.local_world_size = static_cast<int>(chance.below(5));
      if (chance.one_in(3)) join.node_rank = static_cast<int>(chance.below(5)) - 1;
      join.leads = chance.one_in(6);
      return join;
    }
    case 1:
      return Succeeded{round};
    case 2:
      return Failed{round, std::chrono::milliseconds(chance.below(5000)), chance.of(value_pool)};
    case 3:
      return Stopped{round};
    case 4:
      return Leaving{chance.of(value_pool)};
    default:
      return Alive{};
  }
}

constexpr const char* run_secret = "the secret of the run";

// Only what members say may reach the run.
class GuardedMembership final : public Membership {
 public:
  GuardedMembership(std::unique_ptr<Membership> inner, const std::set<ConnectionId>& members)
      : inner_(std::move(inner)), members_(members) {}
  std::vector<Order> heard(ConnectionId from, const AgentMessage& message, Clock::time_point now) override {
    require(members_.contains(from), "a stranger was heard");
    return inner_->heard(from, message, now);
  }
  std::vector<Order> lost(ConnectionId from, Clock::time_point now) override { return inner_->lost(from, now); }
  std::vector<Order> passed(Clock::time_point now) override { return inner_->passed(now); }
  std::optional<Clock::time_point> next_deadline() const override { return inner_->next_deadline(); }
  RunState state() const override { return inner_->state(); }
  int round() const override { return inner_->round(); }
  std::string describe() const override { return inner_->describe(); }

 private:
  std::unique_ptr<Membership> inner_;
  const std::set<ConnectionId>& members_;
};

// Agents that say anything at any time, right or damaged, while time goes by. Some know the secret; the others guess,
// skip the handshake, or repeat what members said.
class AgentConversation {
 public:
  explicit AgentConversation(Chance& chance) : chance_(chance) {
    MembershipRules rules;
    rules.run_id = "run";
    rules.minimum_hosts = 1 + static_cast<int>(chance.below(3));
    rules.maximum_hosts = rules.minimum_hosts + static_cast<int>(chance.below(3));
    rules.maximum_restarts = static_cast<int>(chance.below(3));
    rules.independent = chance.one_in(4);
    handler_ = make_agent_handler(std::make_unique<GuardedMembership>(Membership::make(rules, now_), members_),
                                  {.secret = run_secret}, outbox_, {});
  }

  void go_on() {
    while (agents_.size() < 6) open();
    const auto at = std::next(agents_.begin(), static_cast<std::ptrdiff_t>(chance_.below(agents_.size())));
    const ConnectionId id = at->first;
    std::string bytes;
    for (std::size_t count = 1 + chance_.below(3); count > 0; --count, ++messages_) bytes += next_line(at->second);
    if (chance_.one_in(at->second.knows ? 8 : 2)) damage(bytes, chance_);
    if (!deliver(id, at->second, bytes) || chance_.one_in(40)) close(id);
    now_ += std::chrono::milliseconds(chance_.below(3000));
    handler_->tick(now_);
  }
  std::size_t messages() const { return messages_; }

 private:
  struct Agent {
    SealedChannel channel;
    bool knows = false;  // the secret
    std::string unused;
  };

  void open() {
    const ConnectionId id{++last_};
    const bool knows = !chance_.one_in(3);
    Agent agent{SealedChannel(SealedChannel::Side::agent, knows ? run_secret : "a guess"), knows, ""};
    if (knows) members_.insert(id);
    handler_->opened(id, "");
    std::string greeting = agent.channel.opening();
    if (chance_.one_in(10)) damage(greeting, chance_);
    Agent& kept = agents_.try_emplace(id, std::move(agent)).first->second;
    if (!deliver(id, kept, greeting)) close(id);
  }

  std::string next_line(Agent& agent) {
    std::string line = encode(random_agent_message(chance_));
    if (agent.channel.established()) line = agent.channel.seal(line);
    if (agent.knows) said_ = line;
    return !agent.knows && chance_.one_in(2) ? said_ : line;
  }

  // False: the connection is to be closed. What the handshake asks for is answered.
  bool deliver(ConnectionId id, Agent& agent, const std::string& bytes) {
    agent.unused += bytes;
    const std::vector<char> block(agent.unused.begin(), agent.unused.end());
    const auto used = handler_->received(id, {block.data(), block.size()});
    require(!used || *used <= agent.unused.size(), "more was used than there is");
    if (!used) return false;
    agent.unused.erase(0, *used);
    require(agent.knows || agent.unused.size() <= longest_greeting, "too much of a stranger is kept");
    const std::string told = outbox_.take(id);
    require(agent.knows || told.find("node-") == told.npos, "a stranger was told about the run");
    for (const std::string& line : split(told, '\n')) {
      if (line.empty()) continue;
      const auto heard = agent.channel.hear(line);
      if (heard.broken) return false;
      if (!heard.reply.empty() && !deliver(id, agent, heard.reply)) return false;
    }
    return true;
  }

  void close(ConnectionId id) {
    agents_.erase(id);
    handler_->closed(id);
    outbox_.forget(id);
  }

  Chance& chance_;
  CollectingOutbox outbox_;
  Clock::time_point now_ = Clock::now();
  std::set<ConnectionId> members_;
  std::unique_ptr<ConnectionHandler> handler_;
  std::map<ConnectionId, Agent> agents_;
  std::string said_;  // by a member, last
  std::uint64_t last_ = 0;
  std::size_t messages_ = 0;
};

std::size_t agent_messages(Chance& chance) {
  AgentConversation conversation(chance);
  for (std::size_t step = 0; step < steps_per_conversation; ++step) conversation.go_on();
  return conversation.messages();
}

// ---- the exercises: each holds one conversation and returns how many messages it had ----

std::size_t right_store_messages(Chance& chance) {
  RightConversation conversation(chance);
  for (std::size_t step = 0; step < steps_per_conversation; ++step) conversation.go_on();
  return conversation.messages();
}

std::size_t wrong_store_messages(Chance& chance) {
  WrongConversation conversation(chance);
  for (std::size_t step = 0; step < steps_per_conversation; ++step) conversation.go_on();
  conversation.end();
  return conversation.messages();
}

struct Exercise {
  std::string_view name;
  std::size_t (*hold)(Chance&);
};
constexpr std::array exercises{Exercise{"right store messages", right_store_messages},
                               Exercise{"wrong store messages", wrong_store_messages},
                               Exercise{"agent messages", agent_messages}};

int talk(std::size_t messages, std::uint64_t seed) {
  fuzz::watch();
  const auto start = std::chrono::steady_clock::now();
  std::size_t said = 0;
  std::uint64_t conversation = seed;
  for (; said < messages; ++conversation) {
    fuzz::watched = fmt::format("conversation {}", conversation);
    ::alarm(fuzz::longest_seconds);
    Chance chance(conversation);
    said += exercises[conversation % exercises.size()].hold(chance);
  }
  ::alarm(0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(
      "{{\"bench\": \"store_fuzz\", \"messages\": {}, \"seed\": {}, \"conversations\": {}, \"seconds\": {:.1f}, "
      "\"crashes\": 0}}\n",
      said, seed, conversation - seed, seconds);
  return 0;
}

}  // namespace
}  // namespace muster::rendezvous

int main(int count, char** words) {
  const auto order = muster::fuzz::read_order(count, words, {50'000, 1}, "--messages");
  return order ? muster::rendezvous::talk(order->inputs, order->seed) : 2;
}

// A store as simple as can be, to compare the real one with: no bytes, no limits, no haste.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/connection_handler.hpp"
#include "rendezvous/store_protocol.hpp"

namespace muster::rendezvous {

class StoreModel {
 public:
  // What each client has been told since it was last taken.
  std::map<ConnectionId, std::string> told;

  // False: the client is to be closed.
  bool ask(ConnectionId client, const StoreRequest& request) {
    settle(client, request.command == StoreCommand::queue_pop ? std::optional(std::string(request.key)) : std::nullopt);
    const std::string key(request.key);
    std::string& reply = told[client];
    switch (request.command) {
      case StoreCommand::validate:
        return false;
      case StoreCommand::set:
        return write(key, std::string(request.value));
      case StoreCommand::append:
        return write(key, values_[key] + std::string(request.value));
      case StoreCommand::get:
        append_text(reply, value_of(key));
        return true;
      case StoreCommand::compare_set:
        return compare_set(reply, key, request);
      case StoreCommand::add:
        return add(reply, key, request.amount);
      case StoreCommand::check:
        append_byte(reply, missing(request).empty() ? 0 : 1);
        return true;
      case StoreCommand::wait:
        return wait(client, missing(request), false);
      case StoreCommand::number_of_keys:
        append_number(reply, static_cast<std::int64_t>(values_.size()));
        return true;
      case StoreCommand::delete_key:
        append_number(reply, static_cast<std::int64_t>(values_.erase(key)));
        return true;
      case StoreCommand::multiple_get:
        for (const std::string_view one : request.keys) append_text(reply, value_of(std::string(one)));
        return true;
      case StoreCommand::multiple_set:
        for (std::size_t i = 0; i < request.keys.size(); ++i)
          write(std::string(request.keys[i]), std::string(request.values[i]));
        return true;
      case StoreCommand::cancel_wait:
        waits_.remove_if([&](const Wait& one) { return one.client == client; });
        append_byte(reply, 1);
        return true;
      case StoreCommand::ping:
        append_number(reply, request.number);
        return true;
      case StoreCommand::queue_push:
        queues_[key].emplace_back(request.value);
        wake_one(key);
        return true;
      case StoreCommand::queue_pop:
        return pop(reply, key);
      case StoreCommand::queue_length:
        append_number(reply, static_cast<std::int64_t>(queues_[key].size()));
        return true;
      case StoreCommand::list_keys:
        return true;  // in no order that could be compared: not asked for
      case StoreCommand::barrier:
        return barrier(client, key, request.amount);
    }
    return false;
  }

  void close(ConnectionId client) {
    waits_.remove_if([&](const Wait& one) { return one.client == client; });
    settle(client, std::nullopt);
    told.erase(client);
  }

 private:
  struct Wait {
    ConnectionId client;
    std::set<std::string> missing;
    bool at_barrier;
  };

  std::string value_of(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? "" : found->second;
  }

  bool write(const std::string& key, const std::string& value) {
    values_[key] = value;
    came(key, true);
    return true;
  }

  bool compare_set(std::string& reply, const std::string& key, const StoreRequest& request) {
    const bool exists = values_.contains(key);
    if (exists ? values_[key] == request.value : request.value.empty()) values_[key] = request.desired;
    if (values_.contains(key)) came(key, true);
    append_text(reply, values_.contains(key) ? values_[key] : std::string(request.value));
    return true;
  }

  std::optional<std::int64_t> sum(const std::string& key, std::int64_t amount) const {
    if (!values_.contains(key)) return amount;
    const std::string text = values_.at(key);
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(text.c_str(), &end, 10);
    std::int64_t result = 0;
    if (end == text.c_str() || errno == ERANGE || __builtin_add_overflow(number, amount, &result)) return std::nullopt;
    return result;
  }

  bool add(std::string& reply, const std::string& key, std::int64_t amount) {
    const auto result = sum(key, amount);
    if (!result) return false;
    write(key, std::to_string(*result));
    append_number(reply, *result);
    return true;
  }

  std::set<std::string> missing(const StoreRequest& request) const {
    std::set<std::string> keys;
    for (const std::string_view one : request.keys) {
      const std::string key(one);
      const auto queue = queues_.find(key);
      if (!values_.contains(key) && (queue == queues_.end() || queue->second.empty())) keys.insert(key);
    }
    return keys;
  }

  bool wait(ConnectionId client, const std::set<std::string>& keys, bool at_barrier) {
    if (keys.empty()) {
      append_byte(told[client], 0);
      return true;
    }
    if (is_waiting(client)) return false;
    waits_.push_back({client, keys, at_barrier});
    return true;
  }

  bool is_waiting(ConnectionId client) const {
    return std::ranges::any_of(waits_, [&](const Wait& one) { return one.client == client; });
  }

  bool barrier(ConnectionId client, const std::string& key, std::int64_t count) {
    if (is_waiting(client)) return false;
    const auto result = sum(key, 1);
    if (!result) return false;
    values_[key] = std::to_string(*result);
    came(key, *result >= count);
    return wait(client, *result >= count ? std::set<std::string>() : std::set<std::string>{key}, true);
  }

  bool pop(std::string& reply, const std::string& key) {
    std::deque<std::string>& queue = queues_[key];
    append_number(reply, static_cast<std::int64_t>(queue.size()));
    if (queue.empty()) return true;
    append_text(reply, queue.front());
    queue.pop_front();
    return true;
  }

  // True: that was the last.
  bool tell(Wait& wait, const std::string& key) {
    if (wait.missing.erase(key) == 0 || !wait.missing.empty()) return false;
    append_byte(told[wait.client], 0);
    return true;
  }

  void came(const std::string& key, bool for_barriers) {
    std::erase_if(waits_, [&](Wait& one) { return (for_barriers || !one.at_barrier) && tell(one, key); });
  }

  void wake_one(const std::string& key) {
    for (auto one = waits_.begin(); one != waits_.end(); ++one) {
      if (one->at_barrier || !tell(*one, key)) continue;
      owes_pop_[one->client] = key;
      waits_.erase(one);
      return;
    }
  }

  // The client was woken for a queue, and now pops something else, or nothing.
  void settle(ConnectionId client, const std::optional<std::string>& pops) {
    const auto owed = owes_pop_.find(client);
    if (owed == owes_pop_.end()) return;
    const std::string key = owed->second;
    owes_pop_.erase(owed);
    if (pops != key && !queues_[key].empty()) wake_one(key);
  }

  std::map<std::string, std::string> values_;
  std::map<std::string, std::deque<std::string>> queues_;
  std::list<Wait> waits_;
  std::map<ConnectionId, std::string> owes_pop_;
};

}  // namespace muster::rendezvous

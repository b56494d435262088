#include "rendezvous/roster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace muster::rendezvous {
namespace {

// More ranks on one host are a mistake; world sizes stay far from overflowing.
constexpr int most_local_ranks = 16384;
// Longer lists of hosts and node ranks are cut: 4,000 names are of no help.
constexpr std::size_t most_names = 16;
constexpr int behind_all = std::numeric_limits<int>::max();

std::string plural(int count) { return count == 1 ? "" : "s"; }

// "2, 3 and 5", cut after some.
std::string enumerate(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), most_names);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == names.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + names[i];
  }
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// From first up to and without end: "2", "2 and 3" as two names, "2 to 7" as one.
void add_range(std::vector<std::string>& names, int first, int end) {
  if (end - first > 2) {
    names.push_back(fmt::format("{} to {}", first, end - 1));
  } else {
    for (; first < end; ++first) names.push_back(std::to_string(first));
  }
}

std::string place_range(int minimum, int maximum) {
  return minimum == maximum ? std::to_string(maximum) : fmt::format("{} to {}", minimum, maximum);
}

Refuse never(std::string reason) { return {std::move(reason), false}; }
Refuse not_yet(std::string reason) { return {std::move(reason), true}; }

}  // namespace

std::string name_of(const Join& join) {
  return join.node_rank ? fmt::format("{} (node rank {})", join.host, *join.node_rank) : join.host;
}

Host* Roster::replaced_by(const Join& join) {
  if (!join.node_rank || join.leads) return nullptr;
  const auto found = by_node_rank_.find(*join.node_rank);
  if (found == by_node_rank_.end()) return nullptr;
  Host& holder = *found->second;
  return holder.join.host == join.host && !holder.join.leads ? &holder : nullptr;
}

std::optional<Refuse> Roster::objection(const Join& join, const Host* replaced, Clock::time_point now) const {
  if (join.protocol != agent_protocol)
    return never(
        fmt::format("this agent speaks version {} of the protocol, the coordinator version {}: use the same "
                    "muster on every host",
                    join.protocol, agent_protocol));
  if (join.run_id != rules_.run_id)
    return never(fmt::format(
        "{} belongs to the run \"{}\", the coordinator to another: give every host the same --rdzv-id", join.host,
        join.run_id));
  if (join.local_world_size < 1 || join.local_world_size > most_local_ranks)
    return never(fmt::format("{} brings {} ranks: 1 to {} are possible", name_of(join), join.local_world_size,
                             most_local_ranks));
  if (join.node_rank && (*join.node_rank < 0 || *join.node_rank >= rules_.maximum_hosts))
    return never(fmt::format("the node rank {} of {} is outside 0 to {}: the run has {} host{}", *join.node_rank,
                             join.host, rules_.maximum_hosts - 1, rules_.maximum_hosts, plural(rules_.maximum_hosts)));
  return objection_to_place(join, replaced, now);
}

std::optional<Refuse> Roster::objection_to_place(const Join& join, const Host* replaced, Clock::time_point now) const {
  const int others = size() - (replaced != nullptr ? 1 : 0);
  if (others > 0 && join.node_rank.has_value() != has_node_ranks())
    return never(fmt::format("{} has {} node rank, and {}, which is here, has {}: give all hosts one, or none",
                             name_of(join), join.node_rank ? "a" : "no", name_of(hosts_.back().join),
                             has_node_ranks() ? "one" : "none"));
  if (join.leads && leader_)
    return never(fmt::format("{} wants to lead the run, and {} does already", name_of(join),
                             name_of(by_connection_.at(*leader_)->join)));
  if (const auto found = by_node_rank_.find(join.node_rank.value_or(-1));
      found != by_node_rank_.end() && &*found->second != replaced) {
    const Host& holder = *found->second;
    const bool quiet = holder.leaving || now - holder.last_heard > 2 * rules_.alive_interval;
    return Refuse{fmt::format("the node rank {} of {} (pid {}) is taken by {} (pid {}): give each host its own",
                              *join.node_rank, join.host, join.pid, holder.join.host, holder.join.pid),
                  quiet};
  }
  if (others >= rules_.maximum_hosts)
    return not_yet(fmt::format("no place for {}: all {} hosts of the run are here", name_of(join), others));
  return std::nullopt;
}

void Roster::admit(ConnectionId connection, const Join& join, Clock::time_point now) {
  const Position position = hosts_.insert(hosts_.end(), {connection, join, arrivals_++, now});
  by_connection_.emplace(connection, position);
  if (join.node_rank) by_node_rank_.emplace(*join.node_rank, position);
  if (join.leads) leader_ = connection;
  ++counts_[static_cast<std::size_t>(position->standing)];
}

void Roster::remove(const Host& host) {
  const auto found = by_connection_.find(host.connection);
  const Position position = found->second;
  --counts_[static_cast<std::size_t>(host.standing)];
  if (host.leaving) --leaving_;
  if (host.join.node_rank) by_node_rank_.erase(*host.join.node_rank);
  if (leader_ == host.connection) leader_.reset();
  by_connection_.erase(found);
  hosts_.erase(position);
}

Host* Roster::find(ConnectionId connection) {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : &*found->second;
}

Host* Roster::leader() { return leader_ ? find(*leader_) : nullptr; }

void Roster::set_heard(const Host& host, Clock::time_point now) {
  const Position position = by_connection_.at(host.connection);
  position->last_heard = now;
  hosts_.splice(hosts_.end(), hosts_, position);
}

void Roster::set_standing(Host& host, Standing standing) {
  --counts_[static_cast<std::size_t>(host.standing)];
  ++counts_[static_cast<std::size_t>(standing)];
  host.standing = standing;
}

void Roster::set_leaving(Host& host) {
  if (!host.leaving) ++leaving_;
  host.leaving = true;
}

void Roster::for_each(const std::function<void(Host&)>& visit) {
  for (Host& host : hosts_) visit(host);
}

std::vector<Host*> Roster::in_order() {
  std::vector<Host*> order;
  order.reserve(hosts_.size());
  for (Host& host : hosts_) order.push_back(&host);
  std::ranges::sort(order, {}, [](const Host* host) {
    return std::tuple(host->join.node_rank.value_or(behind_all), !host->join.leads,
                      host->group_rank.value_or(behind_all), host->arrival);
  });
  return order;
}

std::string Roster::describe() const {
  std::vector<std::pair<std::pair<int, std::uint64_t>, std::string>> order;
  for (const Host& host : hosts_)
    order.push_back({{host.join.node_rank.value_or(0), host.arrival}, name_of(host.join)});
  std::ranges::sort(order);
  std::vector<std::string> names;
  for (auto& [place, name] : order) names.push_back(std::move(name));
  std::string text =
      fmt::format("{} of {} host{} {} here", size(), place_range(rules_.minimum_hosts, rules_.maximum_hosts),
                  plural(rules_.maximum_hosts), size() == 1 ? "is" : "are");
  if (!names.empty()) text += ": " + enumerate(names);
  if (const std::string absent = missing(); !absent.empty()) text += "; missing: " + absent;
  return text;
}

std::string Roster::missing() const {
  if (!has_node_ranks()) {
    const int short_of = rules_.minimum_hosts - size();
    return short_of > 0 ? fmt::format("{} more host{}", short_of, plural(short_of)) : "";
  }
  std::vector<std::string> ranks;
  int next = 0;
  for (const auto& [rank, host] : by_node_rank_) {
    add_range(ranks, next, rank);
    next = rank + 1;
  }
  add_range(ranks, next, rules_.maximum_hosts);
  if (ranks.empty()) return "";
  return fmt::format("node rank{} {}", plural(rules_.maximum_hosts - size()), enumerate(ranks));
}

}  // namespace muster::rendezvous

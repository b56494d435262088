// What the controlling program sends to a rank, one JSON line each: the assignment, then pieces of work as they are
// wanted, then that there are no more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "wire/assignment.hpp"

namespace muster::wire {

// One piece of work. The task defines what its row means.
struct Request {
  std::int64_t index = 0;  // among all requests of the job; results carry it
  std::string row;         // one JSON object, as text

  static constexpr std::string_view word = "request";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("index", self.index);
    visit("row", self.row);
  }
  bool operator==(const Request&) const = default;
};

// What is still wanted does not arrive now, but perhaps later: a rank waiting to fill a batch begins with what it has.
// A rank that holds requests and keeps waiting may wait forever: the next one may depend on their results.
struct Pause {
  static constexpr std::string_view word = "pause";
  template <class Self, class Visit>
  static void describe(Self&, Visit&&) {}
  bool operator==(const Pause&) const = default;
};

// No requests are left.
struct EndOfRequests {
  static constexpr std::string_view word = "end-of-requests";
  template <class Self, class Visit>
  static void describe(Self&, Visit&&) {}
  bool operator==(const EndOfRequests&) const = default;
};

// The answer to a request is no longer wanted: it ends where it is, and its result says so. No effect if the
// result is on its way. Sent to a rank that wants more requests.
struct Cancel {
  std::int64_t index = 0;

  static constexpr std::string_view word = "cancel";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("index", self.index);
  }
  bool operator==(const Cancel&) const = default;
};

using Order = std::variant<Assignment, Request, Pause, EndOfRequests, Cancel>;

// One line, without its newline, and back.
std::string print(const Order& order);
Result<Order> parse_order(std::string_view line);

}  // namespace muster::wire

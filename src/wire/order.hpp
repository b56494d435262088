// What the controlling program says to a rank, one JSON line each: the assignment, then pieces of work as they are
// wanted, then that there are no more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "wire/assignment.hpp"

namespace muster::wire {

// One piece of work. What its row means is the task's affair.
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

// What is still wanted does not come now, but perhaps later: a rank that waits to fill a batch begins with what it has.
// A rank that holds requests and goes on waiting may wait forever: the next one may depend on their results.
struct Pause {
  static constexpr std::string_view word = "pause";
  template <class Self, class Visit>
  static void describe(Self&, Visit&&) {}
  bool operator==(const Pause&) const = default;
};

// There are none left.
struct EndOfRequests {
  static constexpr std::string_view word = "end-of-requests";
  template <class Self, class Visit>
  static void describe(Self&, Visit&&) {}
  bool operator==(const EndOfRequests&) const = default;
};

using Order = std::variant<Assignment, Request, Pause, EndOfRequests>;

// One line, without its newline, and back.
std::string print(const Order& order);
Result<Order> parse_order(std::string_view line);

}  // namespace muster::wire

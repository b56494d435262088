// What a rank reports to the controlling program: one JSON line each, with "time", "event" and "rank".
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "spec/values.hpp"
#include "wire/assignment.hpp"
#include "wire/train_event.hpp"

namespace muster {

// Beside its enum, where what writes and reads fields finds it.
inline std::array<spec::Word<Error::Kind>, 3> words(Error::Kind) {
  return {{{"bad_input", Error::Kind::bad_input}, {"refused", Error::Kind::refused}, {"failed", Error::Kind::failed}}};
}

}  // namespace muster

namespace muster::wire {

// The first event. The assignment is the answer to it.
struct Hello {
  int version = protocol_version;
  std::int64_t pid = 0;
  std::string program;                         // "muster-worker 0.1.0"
  std::optional<std::string> processor_limit;  // what ONEDNN_MAX_CPU_ISA was set to, because instructions trap here

  static constexpr std::string_view word = "hello";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("version", self.version);
    visit("pid", self.pid);
    visit("program", self.program);
    visit("processor_limit", self.processor_limit);
  }
  bool operator==(const Hello&) const = default;
};

// Everything is loaded; the work begins.
struct Ready {
  std::string device;  // "cpu", "cuda:0"

  static constexpr std::string_view word = "ready";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("device", self.device);
  }
  bool operator==(const Ready&) const = default;
};

// It can take that many more requests; each is answered by a Request, or all that are left by one EndOfRequests.
struct Want {
  int count = 1;

  static constexpr std::string_view word = "want";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("count", self.count);
  }
  bool operator==(const Want&) const = default;
};

// How far something has got: "loading", "prefill".
struct Progress {
  std::string what;
  std::int64_t done = 0;
  std::optional<std::int64_t> total;

  static constexpr std::string_view word = "progress";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("what", self.what);
    visit("done", self.done);
    visit("total", self.total);
  }
  bool operator==(const Progress&) const = default;
};

// A piece of the answer to a request, as soon as it is available. The pieces of one sample, joined, are its text.
struct Token {
  std::int64_t index = 0;
  int sample = 0;
  std::string text;  // whole characters; may be empty

  static constexpr std::string_view word = "token";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("index", self.index);
    visit("sample", self.sample);
    visit("text", self.text);
  }
  bool operator==(const Token&) const = default;
};

// The whole answer to a request, or to the task if it takes none.
struct TaskResult {
  std::int64_t index = 0;
  std::string row;  // one JSON object, as text

  static constexpr std::string_view word = "result";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("index", self.index);
    visit("row", self.row);
  }
  bool operator==(const TaskResult&) const = default;
};

// The rank cannot continue, and ends.
struct Failed {
  Error error;
  bool consequence = false;  // of another rank's failure: a collective that found its peers gone

  static constexpr std::string_view word = "failed";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("kind", self.error.kind);
    visit("what", self.error.what);
    visit("remedy", self.error.remedy);
    visit("consequence", self.consequence);
  }
  bool operator==(const Failed&) const = default;
};

// The last event of a rank that did everything.
struct Done {
  static constexpr std::string_view word = "done";
  template <class Self, class Visit>
  static void describe(Self&, Visit&&) {}
  bool operator==(const Done&) const = default;
};

using EventBody = std::variant<Hello, Ready, Want, Progress, Token, TaskResult, TrainStep, MemoryUse, PassReduced, Saved,
                               Waiting, Evaluated, Failed, Done>;

struct Event {
  std::chrono::system_clock::time_point time;  // on the wire in seconds since 1970, to the millisecond
  int rank = 0;
  EventBody body;
  bool operator==(const Event&) const = default;
};

// One line, without its newline, and back.
std::string print(const Event& event);
Result<Event> parse_event(std::string_view line);

}  // namespace muster::wire

// What muster-environments is told to serve: one JSON object on its standard input.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/environment_options.hpp"

namespace muster::wire {

struct ServedEnvironment {
  spec::EnvironmentOptions options;
  std::vector<std::string> rows;  // that episodes begin with where a client names none; each one JSON object

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("options", self.options);
    visit("rows", self.rows);
  }
  bool operator==(const ServedEnvironment&) const = default;
};

struct ServeTask {
  std::vector<ServedEnvironment> environments;  // each has another name
  std::string host = "127.0.0.1";               // a numeric address
  std::int64_t port = 50051;                    // 0: a free one
  std::string token;                            // that clients must have; empty: none
  std::chrono::milliseconds session_timeout{600'000};
  std::int64_t most_sessions = 4096;
  std::int64_t most_message_bytes = std::int64_t{16} << 20;
  std::int64_t seed = 42;
  bool json = false;  // what is told at the beginning is for programs

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("environments", self.environments);
    visit("host", self.host);
    visit("port", self.port);
    visit("token", self.token);
    visit("session_timeout", self.session_timeout);
    visit("most_sessions", self.most_sessions);
    visit("most_message_bytes", self.most_message_bytes);
    visit("seed", self.seed);
    visit("json", self.json);
  }
  bool operator==(const ServeTask&) const = default;
};

}  // namespace muster::wire

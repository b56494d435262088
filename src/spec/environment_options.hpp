// What a model acts in, as ranks get it: which environment, how long an episode may last, and what it is worth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/values.hpp"

namespace muster::spec {

enum class EnvironmentKind { code, math, tool, debate, program };
std::vector<Word<EnvironmentKind>> words(EnvironmentKind);

// The answers that an episode may have, where nothing is said.
inline constexpr std::int64_t usual_turns = 8;

struct EnvironmentOptions {
  EnvironmentKind kind = EnvironmentKind::math;
  std::int64_t turns = usual_turns;   // answers that an episode has at most
  std::int64_t attempts = 3;          // of `code`: programs that may be tried
  std::int64_t rounds = 3;            // of `debate`: arguments of each side
  bool steps_count = false;           // of `math`: whether shown steps are rewarded
  std::int64_t result_tokens = 256;   // longer results are cut in their middle
  std::string tool_role = "tool";     // whose message the result of a tool is
  std::int64_t code_seconds = 5;      // on the CPU, for one program
  std::string code_python = "python3";
  std::vector<std::string> program = {};     // of `program`: its command
  double program_seconds = 60;               // that it, or a server, has for an answer
  std::int64_t program_restarts = 3;         // of it, and how often an answer is asked for again
  std::optional<std::string> server = {};    // where muster serve-environments is; absent: the environment is here
  std::optional<std::string> token_file = {};  // of that server
  std::optional<std::int64_t> at_once = {};  // steps that are under way at a time; absent: see steps_at_once()
  double scale = 1;  // an episode is worth clip(scale · sum of its rewards + bias)
  double bias = 0;
  std::optional<double> clip = {};  // to ± this

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("turns", self.turns);
    visit("attempts", self.attempts);
    visit("rounds", self.rounds);
    visit("steps_count", self.steps_count);
    visit("result_tokens", self.result_tokens);
    visit("tool_role", self.tool_role);
    visit("code_seconds", self.code_seconds);
    visit("code_python", self.code_python);
    visit("program", self.program);
    visit("program_seconds", self.program_seconds);
    visit("program_restarts", self.program_restarts);
    visit("server", self.server);
    visit("token_file", self.token_file);
    visit("at_once", self.at_once);
    visit("scale", self.scale);
    visit("bias", self.bias);
    visit("clip", self.clip);
  }
  bool operator==(const EnvironmentOptions&) const = default;
};

// How answers of evaluated episodes are drawn.
struct EpisodeDraws {
  std::int64_t most_tokens = 256;  // of an episode, after its prompt
  double temperature = 1;
  double top_p = 1;
  std::int64_t top_k = 0;
  double min_p = 0;
  std::vector<std::int64_t> stop_tokens = {};

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("most_tokens", self.most_tokens);
    visit("temperature", self.temperature);
    visit("top_p", self.top_p);
    visit("top_k", self.top_k);
    visit("min_p", self.min_p);
    visit("stop_tokens", self.stop_tokens);
  }
  bool operator==(const EpisodeDraws&) const = default;
};

}  // namespace muster::spec

// What a model acts in: training, evaluation, collection and the server see environments by this interface alone.
//
// An episode is a row of the data, reset with a seed, and answers to it, each of which is a step. A single question with its
// right answer is an episode of one step.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/environment_options.hpp"

namespace muster::environment {

struct Message {
  std::string role;
  std::string content;

  bool operator==(const Message&) const = default;
};

// What an answer led to.
struct Step {
  std::vector<Message> messages = {};  // that the next answer answers; none where the episode is over
  std::optional<double> reward = 0;    // absent: unknown, which is not 0
  bool done = false;
  std::optional<bool> solved = {};  // of a last step, where there is a right way to end
  nlohmann::ordered_json info = nlohmann::ordered_json::object();
};

// One episode. Sessions share nothing: each may be used in a thread of its own.
class Session {
 public:
  virtual ~Session() = default;

  // What the first answer answers.
  virtual const std::vector<Message>& messages() const = 0;
  // Not called once the episode is over.
  virtual Step step(const std::string& answer) = 0;
  // What is earned beside the steps' rewards by an episode that must end after a step that was not its last. Absent: unknown.
  virtual std::optional<double> end_early() { return 0; }
};

class Environment {
 public:
  virtual ~Environment() = default;

  // row: one JSON object. The same row and seed begin the same episode, for every member of a group. Refused: a row that lacks
  // what this environment needs. The environment must outlive its sessions; may be called from several threads.
  virtual Result<std::unique_ptr<Session>> reset(const std::string& row, std::uint64_t seed) const = 0;
};

// Refused: programs where the machine grants no sandbox, or has no such Python; a server where nothing speaks gRPC.
Result<std::unique_ptr<Environment>> make_environment(const spec::EnvironmentOptions& options);

// "code", as users write it.
std::string_view name_of(spec::EnvironmentKind kind);
// Steps that are worth being under way at a time.
std::size_t steps_at_once(const spec::EnvironmentOptions& options);
// What is worked on where a row is its own problem: of the run's seed and the row's number.
std::uint64_t seed_of_row(std::uint64_t seed, std::uint64_t row);
// What an episode is worth; absent where one of its steps is.
std::optional<double> worth_of(const std::vector<std::optional<double>>& rewards, const spec::EnvironmentOptions& options);

}  // namespace muster::environment

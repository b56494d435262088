// A program that is asked in lines of JSON, by any number of threads at a time: each request has an id, and its answer
// the same one. It is started when it is first needed, and again when it ends, hangs or writes anything else; whoever
// waits for an answer is told what happened.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "system/coprocess.hpp"

namespace muster::environment {

using Report = std::function<void(const std::string&)>;

class EnvironmentProgram {
 public:
  using Json = nlohmann::ordered_json;
  struct Options {
    std::vector<std::string> command;
    std::string name;  // for messages
    std::chrono::milliseconds patience{60'000};
    std::int64_t restarts = 3;  // in a row, without an answer between them
  };
  // How many times it was started before what it knows was told to it: sessions do not outlive a start.
  using Start = std::int64_t;

  struct Answer {
    Json object;
    Start start = 0;
  };
  // There is no answer, and why.
  struct Lost {
    std::string what;
    std::string remedy;
    bool is_final = false;  // it is not started again
  };
  using Heard = std::variant<Answer, Lost>;

  EnvironmentProgram(Options options, Report report);
  EnvironmentProgram(const EnvironmentProgram&) = delete;
  EnvironmentProgram& operator=(const EnvironmentProgram&) = delete;
  ~EnvironmentProgram();

  // Waits. start: the one that must still be running; absent: any.
  Heard ask(Json request, std::optional<Start> start = {});
  // Nothing is waited for; nobody is told that it has ended since.
  void tell(Json message, Start start);

 private:
  using Clock = std::chrono::steady_clock;
  struct Asked {
    std::promise<Heard> heard;
    Clock::time_point deadline;
  };

  void work();
  void wait_for_call() const;
  void start_if_needed();
  // Until it is wanted by another thread, or lost.
  std::optional<Lost> converse(std::string& unsent);
  std::optional<Lost> take(const std::string& line);
  void lose(Lost why);
  Lost late() const;
  Lost gone() const;
  void wake() const;

  const Options options_;
  const Report report_;
  FileDescriptor call_;               // readable where the worker has something to do
  std::optional<Coprocess> program_;  // the worker's alone

  std::mutex mutex_;
  std::map<std::int64_t, Asked> asked_;
  std::string outgoing_;
  std::int64_t next_id_ = 0;
  Start start_ = 0;
  bool runs_ = false;
  std::int64_t losses_ = 0;  // in a row
  std::optional<Lost> final_;

  std::atomic<bool> stopped_ = false;
  // Uses all others. The program dies with it. It begins with the first request: before, this process may fork.
  std::thread worker_;
};

}  // namespace muster::environment

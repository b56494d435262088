// The environments of a server: what its requests ask of them, without the network.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "environment.pb.h"
#include "environment/hosted_sessions.hpp"
#include "environment/step_threads.hpp"
#include "wire/serve_task.hpp"

#include <grpcpp/support/status.h>

namespace muster::environment_server {

class HostedEnvironments {
 public:
  using Claim = std::unique_ptr<environment::HostedSessions::Claim>;

  // Refused: what make_environment() refuses.
  static Result<std::unique_ptr<HostedEnvironments>> make(const wire::ServeTask& task);

  // Where requests of this environment, or of this session's, are to wait; null: there is no such environment.
  environment::StepThreads* threads_of(const std::string& environment) const;

  // They take the time that the environment takes.
  grpc::Status reset(const mrlm::ResetRequest& request, mrlm::ResetResponse& response);
  grpc::Status step(Claim claim, const mrlm::StepRequest& request, mrlm::StepResponse& response);

  // The session that a request names, for it alone. Refused: one that is unknown, over, or being stepped.
  grpc::Status claim(const mrlm::StepRequest& request, Claim& claim);

  void list(const std::string& type, mrlm::ListEnvironmentsResponse& response) const;
  std::size_t count() const { return hosted_.size(); }
  environment::HostedSessions& sessions() { return sessions_; }
  grpc::Status unknown_environment(const std::string& name) const;

 private:
  struct Hosted {
    std::string name;
    const wire::ServedEnvironment* served = nullptr;
    std::unique_ptr<environment::Environment> environment;
    std::atomic<std::uint64_t> next = 0;                // of its rows
    std::unique_ptr<environment::StepThreads> threads;  // the last one: they use the others
  };
  struct Beginning {
    std::string row;
    std::uint64_t seed = 0;
  };

  explicit HostedEnvironments(const wire::ServeTask& task)
      : task_(task), sessions_(static_cast<std::size_t>(task.most_sessions), task.session_timeout) {}
  Hosted* find(const std::string& name) const;
  grpc::Status beginning_of(Hosted& hosted, const mrlm::ResetRequest& request, Beginning& beginning) const;

  const wire::ServeTask& task_;
  std::vector<std::unique_ptr<Hosted>> hosted_;
  environment::HostedSessions sessions_;  // after the environments, which outlive their sessions
};

}  // namespace muster::environment_server

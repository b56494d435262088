// What arrives over the network: who may ask, and in which threads it is answered.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "environment.grpc.pb.h"
#include "environment_server/hosted_environments.hpp"

namespace muster::environment_server {

class EnvironmentService final : public mrlm::EnvironmentService::CallbackService {
 public:
  // token: that clients must have; empty: anybody may ask.
  EnvironmentService(HostedEnvironments& environments, std::string token)
      : environments_(environments), token_(std::move(token)) {}

  grpc::ServerUnaryReactor* Reset(grpc::CallbackServerContext* call, const mrlm::ResetRequest* request,
                                  mrlm::ResetResponse* response) override;
  grpc::ServerUnaryReactor* Step(grpc::CallbackServerContext* call, const mrlm::StepRequest* request,
                                 mrlm::StepResponse* response) override;
  // All steps or none: a request that names a session that cannot be stepped is refused before any step.
  grpc::ServerUnaryReactor* BatchStep(grpc::CallbackServerContext* call, const mrlm::BatchStepRequest* request,
                                      mrlm::BatchStepResponse* response) override;
  // One after the other; the first that is refused ends the stream.
  grpc::ServerBidiReactor<mrlm::StepRequest, mrlm::StepResponse>* StreamStep(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* ListEnvironments(grpc::CallbackServerContext* call,
                                             const mrlm::ListEnvironmentsRequest* request,
                                             mrlm::ListEnvironmentsResponse* response) override;
  grpc::ServerUnaryReactor* HealthCheck(grpc::CallbackServerContext* call, const mrlm::HealthCheckRequest* request,
                                        mrlm::HealthCheckResponse* response) override;

 private:
  grpc::Status permission(const grpc::CallbackServerContext& call) const;

  HostedEnvironments& environments_;
  const std::string token_;
};

}  // namespace muster::environment_server

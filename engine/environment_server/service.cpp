#include "environment_server/service.hpp"

#include <fmt/format.h>

#include <ctime>
#include <exception>

namespace muster::environment_server {
namespace {

using grpc::Status;
using grpc::StatusCode;
using Claim = HostedEnvironments::Claim;

// A bug ends one request, and no other.
template <class Work>
Status guarded(Work&& work) {
  try {
    return work();
  } catch (const std::exception& bug) {
    fmt::print(stderr, "muster-environments: {}\n", bug.what());
    return {StatusCode::INTERNAL, fmt::format("a bug of the server: {}", bug.what())};
  }
}

// In a time that does not tell how much of it was right.
bool is_same(const std::string& given, const std::string& right) {
  bool is_different = given.size() != right.size();
  for (std::size_t i = 0; i < right.size(); ++i) is_different |= right[i] != (i < given.size() ? given[i] : '\0');
  return !is_different;
}

grpc::ServerUnaryReactor* finished(grpc::CallbackServerContext* call, const Status& status) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// The steps of one BatchStep. Lives until the last of them is done.
struct Batch {
  grpc::ServerUnaryReactor* reactor = nullptr;
  std::atomic<int> left = 0;
  std::mutex mutex;
  Status status;  // the first that failed
};

class StepStream final : public grpc::ServerBidiReactor<mrlm::StepRequest, mrlm::StepResponse> {
 public:
  StepStream(HostedEnvironments& environments, const Status& permission) : environments_(environments) {
    if (permission.ok())
      StartRead(&request_);
    else
      Finish(permission);
  }

  void OnReadDone(bool is_there) override {
    if (!is_there) return Finish(Status::OK);
    auto claim = std::make_shared<Claim>();
    if (const Status status = environments_.claim(request_, *claim); !status.ok()) return Finish(status);
    environments_.threads_of((*claim)->environment())->add([this, claim] {
      response_.Clear();
      const Status status = guarded([&] { return environments_.step(std::move(*claim), request_, response_); });
      if (!status.ok()) return Finish(status);
      StartWrite(&response_);
    });
  }
  void OnWriteDone(bool is_sent) override {
    if (!is_sent) return Finish({StatusCode::CANCELLED, "the client is gone"});
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  HostedEnvironments& environments_;
  mrlm::StepRequest request_;
  mrlm::StepResponse response_;
};

}  // namespace

Status EnvironmentService::permission(const grpc::CallbackServerContext& call) const {
  if (token_.empty()) return Status::OK;
  const auto& metadata = call.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end())
    return {StatusCode::UNAUTHENTICATED, "a token is wanted: send the metadata \"authorization: Bearer TOKEN\""};
  if (!is_same({found->second.data(), found->second.size()}, "Bearer " + token_))
    return {StatusCode::UNAUTHENTICATED,
            "the token is not this server's: send its own as \"authorization: Bearer TOKEN\""};
  return Status::OK;
}

grpc::ServerUnaryReactor* EnvironmentService::Reset(grpc::CallbackServerContext* call,
                                                    const mrlm::ResetRequest* request, mrlm::ResetResponse* response) {
  if (const Status status = permission(*call); !status.ok()) return finished(call, status);
  environment::StepThreads* threads = environments_.threads_of(request->environment_id());
  if (threads == nullptr) return finished(call, environments_.unknown_environment(request->environment_id()));
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  threads->add([this, call, request, response, reactor] {
    if (call->IsCancelled()) return reactor->Finish(Status::CANCELLED);
    reactor->Finish(guarded([&] { return environments_.reset(*request, *response); }));
  });
  return reactor;
}

grpc::ServerUnaryReactor* EnvironmentService::Step(grpc::CallbackServerContext* call, const mrlm::StepRequest* request,
                                                   mrlm::StepResponse* response) {
  if (const Status status = permission(*call); !status.ok()) return finished(call, status);
  auto claim = std::make_shared<Claim>();
  if (const Status status = environments_.claim(*request, *claim); !status.ok()) return finished(call, status);
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  environments_.threads_of((*claim)->environment())->add([this, call, request, response, reactor, claim] {
    if (call->IsCancelled()) {
      claim->reset();
      return reactor->Finish(Status::CANCELLED);
    }
    reactor->Finish(guarded([&] { return environments_.step(std::move(*claim), *request, *response); }));
  });
  return reactor;
}

grpc::ServerUnaryReactor* EnvironmentService::BatchStep(grpc::CallbackServerContext* call,
                                                        const mrlm::BatchStepRequest* request,
                                                        mrlm::BatchStepResponse* response) {
  if (const Status status = permission(*call); !status.ok()) return finished(call, status);
  std::vector<std::shared_ptr<Claim>> claims;
  for (int i = 0; i < request->requests_size(); ++i) {
    const Status status = environments_.claim(request->requests(i), *claims.emplace_back(std::make_shared<Claim>()));
    if (!status.ok())
      return finished(call, {status.error_code(), fmt::format("requests[{}]: {}; none of the {} was stepped", i,
                                                              status.error_message(), request->requests_size())});
    response->add_responses();
  }
  if (claims.empty()) return finished(call, Status::OK);
  auto batch = std::make_shared<Batch>();
  batch->reactor = call->DefaultReactor();
  batch->left = request->requests_size();
  for (int i = 0; i < request->requests_size(); ++i) {
    const auto& claim = claims[static_cast<std::size_t>(i)];
    environments_.threads_of((*claim)->environment())
        ->add([this, batch, claim, one = &request->requests(i), answer = response->mutable_responses(i)] {
          const Status status = guarded([&] { return environments_.step(std::move(*claim), *one, *answer); });
          if (!status.ok()) {
            const std::scoped_lock lock(batch->mutex);
            if (batch->status.ok()) batch->status = status;
          }
          if (--batch->left == 0) batch->reactor->Finish(batch->status);
        });
  }
  return batch->reactor;
}

grpc::ServerBidiReactor<mrlm::StepRequest, mrlm::StepResponse>* EnvironmentService::StreamStep(
    grpc::CallbackServerContext* call) {
  return new StepStream(environments_, permission(*call));
}

grpc::ServerUnaryReactor* EnvironmentService::ListEnvironments(grpc::CallbackServerContext* call,
                                                               const mrlm::ListEnvironmentsRequest* request,
                                                               mrlm::ListEnvironmentsResponse* response) {
  if (const Status status = permission(*call); !status.ok()) return finished(call, status);
  environments_.list(request->environment_type(), *response);
  return finished(call, Status::OK);
}

grpc::ServerUnaryReactor* EnvironmentService::HealthCheck(grpc::CallbackServerContext* call,
                                                          const mrlm::HealthCheckRequest* request,
                                                          mrlm::HealthCheckResponse* response) {
  if (const Status status = permission(*call); !status.ok()) return finished(call, status);
  const bool is_ours =
      request->service().empty() || request->service() == mrlm::EnvironmentService::service_full_name();
  response->set_status(is_ours ? "healthy" : "unknown");
  environments_.sessions().remove_expired();
  (*response->mutable_info())["num_environments"] = std::to_string(environments_.count());
  (*response->mutable_info())["num_sessions"] = std::to_string(environments_.sessions().count());
  response->set_timestamp(static_cast<std::int64_t>(std::time(nullptr)));
  return finished(call, Status::OK);
}

}  // namespace muster::environment_server

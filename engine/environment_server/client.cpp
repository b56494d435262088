#include "environment_server/client.hpp"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <mutex>

#include "base/duration.hpp"
#include "environment.grpc.pb.h"
#include "json/fields.hpp"

namespace muster::environment_server {
namespace {

using grpc::Status;
using grpc::StatusCode;

Json messages_of(const mrlm::ObservationProto& observation) {
  Json list = Json::array();
  for (const mrlm::MessageProto& message : observation.messages())
    list.push_back({{"role", message.role()}, {"content", message.content()}});
  return list;
}

// The server's texts; what was a number or a list there is one here.
Json info_of(const mrlm::ObservationProto& observation) {
  const std::map<std::string, std::string> sorted(observation.info().begin(), observation.info().end());
  Json info = Json::object();
  for (const auto& [key, text] : sorted) {
    Json value = Json::parse(text, nullptr, false);
    info[key] = value.is_discarded() ? Json(text) : std::move(value);
  }
  return info;
}

// No answer with other numbers would be different: the row, the environment or the token must be.
bool is_lasting(const Status& status) {
  switch (status.error_code()) {
    case StatusCode::INVALID_ARGUMENT:
    case StatusCode::UNAUTHENTICATED:
    case StatusCode::NOT_FOUND:
    case StatusCode::OUT_OF_RANGE:
    case StatusCode::UNIMPLEMENTED:
      return true;
    default:
      return false;
  }
}

class Client {
 public:
  explicit Client(const ClientOptions& options)
      : options_(options),
        stub_(mrlm::EnvironmentService::NewStub(
            grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), channel_arguments()))) {}

  void take(const std::string& line) {
    const Json request = Json::parse(line);
    const auto session = request["session"].get<std::int64_t>();
    if (request.contains("close")) return step(std::nullopt, session, "", true);
    const auto id = request["id"].get<std::int64_t>();
    if (request.contains("reset"))
      return reset(id, session, request["reset"].dump(), request["seed"].get<std::uint64_t>());
    step(id, session, request.value("answer", std::string()), request.contains("end"));
  }

 private:
  template <class Request, class Response>
  struct Call {
    grpc::ClientContext context;
    Request request;
    Response response;
  };

  static grpc::ChannelArguments channel_arguments() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    return arguments;
  }

  void prepare(grpc::ClientContext& context) const {
    context.set_deadline(std::chrono::system_clock::now() + options_.patience);
    if (!options_.token.empty()) context.AddMetadata("authorization", "Bearer " + options_.token);
  }

  void reset(std::int64_t id, std::int64_t session, const std::string& row, std::uint64_t seed) {
    auto call = std::make_shared<Call<mrlm::ResetRequest, mrlm::ResetResponse>>();
    prepare(call->context);
    call->context.set_wait_for_ready(
        true);  // a server that is gone has forgotten its sessions, but may come back for others
    call->request.set_environment_id(options_.environment);
    (*call->request.mutable_config())["row"] = row;
    (*call->request.mutable_config())["seed"] = std::to_string(seed);
    stub_->async()->Reset(
        &call->context, &call->request, &call->response, [this, call, id, session](const Status& status) {
          if (!status.ok()) {
            if (is_lasting(status))
              return say({{"id", id}, {"refused", what(status)}, {"remedy", "see docs/environments.md, \"Serving\""}});
            return say({{"id", id}, {"failed", what(status)}});
          }
          {
            const std::scoped_lock lock(mutex_);
            sessions_[session] = call->response.session_id();
          }
          say({{"id", id}, {"messages", messages_of(call->response.observation())}});
        });
  }

  // id: of the request that it answers; absent: nobody waits.
  void step(std::optional<std::int64_t> id, std::int64_t session, const std::string& answer, bool ends) {
    auto call = std::make_shared<Call<mrlm::StepRequest, mrlm::StepResponse>>();
    prepare(call->context);
    {
      const std::scoped_lock lock(mutex_);
      const auto found = sessions_.find(session);
      if (found == sessions_.end()) {
        if (id) say({{"id", *id}, {"failed", "this session was not begun here"}});
        return;
      }
      call->request.set_session_id(found->second);
      if (ends) sessions_.erase(found);
    }
    call->request.mutable_action()->set_role("assistant");
    call->request.mutable_action()->set_content(answer);
    if (ends) (*call->request.mutable_action()->mutable_metadata())["end"] = "true";
    stub_->async()->Step(&call->context, &call->request, &call->response,
                         [this, call, id, session](const Status& status) {
                           if (!id) return;
                           if (!status.ok()) return say({{"id", *id}, {"failed", what(status)}});
                           const mrlm::ObservationProto& observation = call->response.observation();
                           const double reward = call->response.reward().value();
                           if (observation.done()) {
                             const std::scoped_lock lock(mutex_);
                             sessions_.erase(session);
                           }
                           say({{"id", *id},
                                {"messages", messages_of(observation)},
                                {"reward", std::isfinite(reward) ? Json(reward) : Json()},
                                {"done", observation.done()},
                                {"info", info_of(observation)}});
                         });
  }

  std::string what(const Status& status) const {
    if (status.error_code() == StatusCode::DEADLINE_EXCEEDED)
      return fmt::format("the server at {} gave no answer within {}", options_.address, to_string(options_.patience));
    if (status.error_code() == StatusCode::UNAVAILABLE)
      return fmt::format("the server at {} cannot be asked: {}", options_.address, status.error_message());
    return fmt::format("the server at {} says: {}", options_.address, status.error_message());
  }

  void say(const Json& answer) {
    const std::string line = answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    const std::scoped_lock lock(output_);
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
  }

  const ClientOptions& options_;
  std::unique_ptr<mrlm::EnvironmentService::Stub> stub_;
  std::mutex mutex_, output_;
  std::map<std::int64_t, std::string> sessions_;  // the server's name of each
};

}  // namespace

void answer_lines(const ClientOptions& options) {
  Client client(options);
  for (std::string line; std::getline(std::cin, line);)
    if (!line.empty()) client.take(line);
}

}  // namespace muster::environment_server

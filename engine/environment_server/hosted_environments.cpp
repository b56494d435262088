#include "environment_server/hosted_environments.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/duration.hpp"
#include "base/one_line.hpp"
#include "base/text.hpp"
#include "json/fields.hpp"

namespace muster::environment_server {
namespace {

using grpc::Status;
using grpc::StatusCode;
using Absence = environment::HostedSessions::Absence;

constexpr const char* success = "success";

Status status_of(const Error& error) {
  const auto code = error.kind == Error::Kind::bad_input ? StatusCode::INVALID_ARGUMENT : StatusCode::UNAVAILABLE;
  return {code, to_string(error)};
}

Status invalid(const std::string& what) { return {StatusCode::INVALID_ARGUMENT, what}; }

void write_messages(const std::vector<environment::Message>& messages, mrlm::ObservationProto& observation) {
  for (const environment::Message& message : messages) {
    mrlm::MessageProto& written = *observation.add_messages();
    written.set_role(message.role);
    written.set_content(message.content);
  }
}

// The values of info as texts, which is all that the protocol has for them.
void write_info(const Json& info, mrlm::ObservationProto& observation) {
  for (const auto& [key, value] : info.items())
    (*observation.mutable_info())[key] =
        value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_reward(const std::optional<double>& reward, mrlm::RewardProto& written) {
  written.set_value(reward.value_or(std::numeric_limits<double>::quiet_NaN()));
  if (!reward) (*written.mutable_info())["unknown"] = "nobody knows what this earned: it is not 0";
}

}  // namespace

Result<std::unique_ptr<HostedEnvironments>> HostedEnvironments::make(const wire::ServeTask& task) {
  std::unique_ptr<HostedEnvironments> made(new HostedEnvironments(task));
  for (const wire::ServedEnvironment& served : task.environments) {
    auto environment = environment::make_environment(served.options);
    if (!environment) return environment.error();
    auto hosted = std::make_unique<Hosted>();
    hosted->name = environment::name_of(served.options.kind);
    hosted->served = &served;
    hosted->environment = std::move(*environment);
    hosted->threads = std::make_unique<environment::StepThreads>(environment::steps_at_once(served.options));
    made->hosted_.push_back(std::move(hosted));
  }
  return made;
}

HostedEnvironments::Hosted* HostedEnvironments::find(const std::string& name) const {
  for (const auto& hosted : hosted_)
    if (hosted->name == name) return hosted.get();
  return nullptr;
}

environment::StepThreads* HostedEnvironments::threads_of(const std::string& environment) const {
  const Hosted* hosted = find(environment);
  return hosted == nullptr ? nullptr : hosted->threads.get();
}

Status HostedEnvironments::unknown_environment(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& hosted : hosted_) names.push_back(hosted->name);
  return {StatusCode::NOT_FOUND,
          fmt::format("there is no environment \"{}\" here: there are {}", on_one_line(name, 80), join(names, ", "))};
}

Status HostedEnvironments::beginning_of(Hosted& hosted, const mrlm::ResetRequest& request, Beginning& beginning) const {
  const std::vector<std::string>& rows = hosted.served->rows;
  const auto seed = static_cast<std::uint64_t>(task_.seed);
  std::optional<std::uint64_t> index, given_seed;
  for (const auto& [key, value] : request.config()) {
    if (key == "row") {
      beginning.row = value;
      continue;
    }
    if (key != "index" && key != "seed")
      return invalid(
          fmt::format("config has \"{}\", which is not known: there are row, index and seed", on_one_line(key, 80)));
    const auto number = parse_number<std::uint64_t>(value);
    if (!number)
      return invalid(fmt::format("config's \"{}\" is \"{}\", and must be a whole number", key, on_one_line(value, 80)));
    (key == "index" ? index : given_seed) = number;
  }
  if (!beginning.row.empty() && index) return invalid("config has both \"row\" and \"index\": keep one of the two");
  if (!beginning.row.empty()) {
    beginning.seed = given_seed.value_or(seed);
    return Status::OK;
  }
  if (rows.empty())
    return invalid(fmt::format(
        "the server has no data for {}: give config a \"row\", a JSON object, or start it with --data {}=FILE",
        hosted.name, hosted.name));
  if (index && *index >= rows.size())
    return {StatusCode::OUT_OF_RANGE,
            fmt::format("config's \"index\" is {}, and there are {} rows, from 0", *index, rows.size())};
  const std::uint64_t number = index ? *index : hosted.next++;
  beginning.row = rows[number % rows.size()];
  beginning.seed = given_seed.value_or(environment::seed_of_row(seed, number));
  return Status::OK;
}

Status HostedEnvironments::reset(const mrlm::ResetRequest& request, mrlm::ResetResponse& response) {
  Hosted* hosted = find(request.environment_id());
  if (hosted == nullptr) return unknown_environment(request.environment_id());
  auto place = sessions_.reserve();
  if (!place)
    return {
        StatusCode::RESOURCE_EXHAUSTED,
        fmt::format(
            "{} sessions are open, as many as there may be: end some, wait until they expire ({}), or start the server "
            "with more (--sessions)",
            task_.most_sessions, to_string(task_.session_timeout))};
  Beginning beginning;
  if (Status status = beginning_of(*hosted, request, beginning); !status.ok()) return status;
  auto session = hosted->environment->reset(beginning.row, beginning.seed);
  if (!session) return status_of(session.error());
  mrlm::ObservationProto& observation = *response.mutable_observation();
  write_messages((*session)->messages(), observation);
  (*observation.mutable_state())["turn"] = "0";
  (*observation.mutable_info())["seed"] = std::to_string(beginning.seed);
  response.set_session_id(sessions_.begin(std::move(place), hosted->name, std::move(*session)));
  response.set_status(success);
  return Status::OK;
}

Status HostedEnvironments::claim(const mrlm::StepRequest& request, Claim& claim) {
  const std::string& id = request.session_id();
  const std::string shown_id = on_one_line(id, 40);
  auto claimed = sessions_.claim(id);
  if (auto* found = std::get_if<Claim>(&claimed)) {
    claim = std::move(*found);
    return Status::OK;
  }
  switch (std::get<Absence>(claimed)) {
    case Absence::expired:
      return {StatusCode::NOT_FOUND,
              fmt::format("session \"{}\" has expired: nobody stepped it for {} (--session-timeout)", shown_id,
                          to_string(task_.session_timeout))};
    case Absence::over:
      return {StatusCode::FAILED_PRECONDITION,
              fmt::format("the episode of session \"{}\" is over: Reset begins another", shown_id)};
    case Absence::busy:
      return {StatusCode::ABORTED,
              fmt::format("another step of session \"{}\" is under way: a session takes one at a time", shown_id)};
    case Absence::unknown:
      break;
  }
  return {StatusCode::NOT_FOUND, fmt::format("there is no session \"{}\" here: Reset begins one", shown_id)};
}

Status HostedEnvironments::step(Claim claim, const mrlm::StepRequest& request, mrlm::StepResponse& response) {
  const auto& metadata = request.action().metadata();
  const auto end = metadata.find("end");
  mrlm::ObservationProto& observation = *response.mutable_observation();
  if (end != metadata.end() && end->second == "true") {
    write_reward(claim->end_early(), *response.mutable_reward());
    observation.set_done(true);
  } else {
    const environment::Step step = claim->step(request.action().content());
    write_messages(step.messages, observation);
    write_info(step.info, observation);
    write_reward(step.reward, *response.mutable_reward());
    observation.set_done(step.done);
  }
  (*observation.mutable_state())["turn"] = std::to_string(claim->turns());
  response.set_status(success);
  return Status::OK;
}

void HostedEnvironments::list(const std::string& type, mrlm::ListEnvironmentsResponse& response) const {
  for (const auto& hosted : hosted_) {
    if (!type.empty() && type != hosted->name) continue;
    mrlm::EnvironmentInfo& info = *response.add_environments();
    info.set_environment_id(hosted->name);
    info.set_environment_type(hosted->name);
    info.set_mode("client");  // guide 0's word for one that is not trained
    (*info.mutable_metadata())["rows"] = std::to_string(hosted->served->rows.size());
  }
}

}  // namespace muster::environment_server

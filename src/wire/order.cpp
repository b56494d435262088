#include "wire/order.hpp"

#include <array>

#include "json/fields.hpp"
#include "spec/values.hpp"

namespace muster::wire {

static std::array<spec::Word<DeviceKind>, 2> words(DeviceKind) {
  return {{{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}}};
}
static std::array<spec::Word<Backend>, 3> words(Backend) {
  return {{{"gloo", Backend::gloo},
           {"nccl", Backend::nccl},
           {"nccl-on-shared-gpus", Backend::nccl_on_shared_gpus}}};
}

namespace {

constexpr const char* order_key = "order";
constexpr std::string_view assignment_word = "assignment";
constexpr const char* order_source = "a line from the controlling program";

// Without the task, which has its own key.
template <class Self, class Visit>
void describe_assignment(Self& assignment, Visit&& visit) {
  visit("device", assignment.device);
  visit("backend", assignment.backend);
  visit("threads", assignment.threads);
  visit("seed", assignment.seed);
  visit("timeout", assignment.timeout);
}

Error unreadable(const std::string& why) {
  return {Error::Kind::failed, fmt::format("{}: {}", order_source, why),
          "use muster and muster-worker of the same build: ./muster builds both"};
}

Result<Order> parse_assignment(const nlohmann::json& json) {
  Assignment assignment;
  // The version first: with another one nothing else needs to be readable.
  const auto version = json.find("version");
  if (version == json.end() || read_json(*version, assignment.version) || assignment.version != protocol_version)
    return unreadable(fmt::format("it speaks version {} of the protocol, and this muster-worker speaks version {}",
                                  version == json.end() ? "?" : shown(*version), protocol_version));
  std::optional<std::string> wrong;
  describe_assignment(assignment, [&](const char* name, auto& field) {
    if (wrong) return;
    const auto found = json.find(name);
    if (found == json.end())
      wrong = fmt::format("the assignment has no \"{}\"", name);
    else if (auto inner = read_json(*found, field))
      wrong = fmt::format("the assignment's \"{}\" {}", name, *inner);
  });
  const auto task = json.find("task");
  if (!wrong && task == json.end()) wrong = "the assignment has no \"task\"";
  if (!wrong) wrong = read_kind(*task, "kind", assignment.task);
  if (wrong) return unreadable(*wrong);
  return Order(assignment);
}

}  // namespace

std::string_view to_word(DeviceKind device) {
  return words(device)[static_cast<std::size_t>(device)].text;
}
std::string_view to_word(Backend backend) { return words(backend)[static_cast<std::size_t>(backend)].text; }

std::string print(const Order& order) {
  Json json;
  if (const auto* assignment = std::get_if<Assignment>(&order)) {
    json[order_key] = assignment_word;
    json["version"] = assignment->version;
    describe_assignment(*assignment, [&](const char* name, const auto& field) { json[name] = to_json(field); });
    write_kind(json["task"], "kind", assignment->task);
  } else if (const auto* request = std::get_if<Request>(&order)) {
    write_kind(json, order_key, std::variant<Request>(*request));
  } else if (const auto* cancel = std::get_if<Cancel>(&order)) {
    write_kind(json, order_key, std::variant<Cancel>(*cancel));
  } else if (std::holds_alternative<Pause>(order)) {
    write_kind(json, order_key, std::variant<Pause>());
  } else {
    write_kind(json, order_key, std::variant<EndOfRequests>());
  }
  return as_line(json);
}

Result<Order> parse_order(std::string_view line) {
  const auto json = parse_json_object(line, order_source);
  if (!json) return unreadable(json.error().what);
  if (const auto word = json->find(order_key); word != json->end() && *word == assignment_word)
    return parse_assignment(*json);
  std::variant<Request, Pause, EndOfRequests, Cancel> order;
  if (auto wrong = read_kind(*json, order_key, order)) return unreadable(*wrong);
  return std::visit([](auto& kind) { return Order(std::move(kind)); }, order);
}

}  // namespace muster::wire

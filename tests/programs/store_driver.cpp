// A client of a store that does what it is told, one JSON object a line: store_driver. The first names the store:
//   {"operation": "connect", "host": "127.0.0.1", "port": 29500}
//   {"operation": "set", "key": "k", "value": "6869"}             values are in hexadecimal digits
// Each is answered with {"result": …} or {"error": "…"}; torch_store_driver.py does the same with torch's client.
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "rendezvous/store_client.hpp"

namespace muster::rendezvous {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

std::string from_hexadecimal(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::string to_hexadecimal(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

// A failure ends the operation.
void check(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().what);
}
template <class Value>
Value check(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().what);
  return std::move(*result);
}

std::vector<std::string> keys_of(const json& order) { return order.at("keys").get<std::vector<std::string>>(); }
std::string key_of(const json& order) { return order.at("key").get<std::string>(); }
std::string value_of(const json& order, const char* name = "value") {
  return from_hexadecimal(order.at(name).get<std::string>());
}
milliseconds timeout_of(const json& order) { return milliseconds(order.value("milliseconds", 60000)); }

class Driver {
 public:
  json answer(const json& order) {
    try {
      return {{"result", operations_.at(order.at("operation").get<std::string>())(order)}};
    } catch (const std::runtime_error& failure) {
      return {{"error", failure.what()}};
    }
  }

 private:
  json connect(const json& order) {
    const auto addresses = check(resolve(order.at("host").get<std::string>(), order.at("port").get<std::uint16_t>()));
    client_.emplace(check(StoreClient::connect(addresses, milliseconds(60000))));
    return nullptr;
  }

  json multiple_get(const json& order) {
    json values = json::array();
    for (const std::string& value : check(client_->multiple_get(keys_of(order))))
      values.push_back(to_hexadecimal(value));
    return values;
  }

  json multiple_set(const json& order) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& [key, value] : order.at("entries").items())
      entries.emplace_back(key, from_hexadecimal(value.get<std::string>()));
    check(client_->multiple_set(entries));
    return nullptr;
  }

  json queue_pop(const json& order) {
    if (order.value("block", false)) check(client_->wait({{key_of(order)}}, timeout_of(order)));
    const auto value = check(client_->queue_pop(key_of(order)));
    if (!value) throw std::runtime_error("the queue is empty");
    return to_hexadecimal(*value);
  }

  static json done(const Result<void>& result) {
    check(result);
    return nullptr;
  }

  std::optional<StoreClient> client_;
  const std::map<std::string, std::function<json(const json&)>> operations_{
      {"connect", [this](const json& order) { return connect(order); }},
      {"set", [this](const json& order) { return done(client_->set(key_of(order), value_of(order))); }},
      {"get", [this](const json& order) { return to_hexadecimal(check(client_->get(key_of(order)))); }},
      {"add", [this](const json& order) { return check(client_->add(key_of(order), order.at("amount"))); }},
      {"compare_set",
       [this](const json& order) {
         return to_hexadecimal(
             check(client_->compare_set(key_of(order), value_of(order, "expected"), value_of(order, "desired"))));
       }},
      {"append", [this](const json& order) { return done(client_->append(key_of(order), value_of(order))); }},
      {"delete_key", [this](const json& order) { return check(client_->erase(key_of(order))); }},
      {"multi_get", [this](const json& order) { return multiple_get(order); }},
      {"multi_set", [this](const json& order) { return multiple_set(order); }},
      {"check", [this](const json& order) { return check(client_->check(keys_of(order))); }},
      {"wait", [this](const json& order) { return done(client_->wait(keys_of(order), timeout_of(order))); }},
      {"list_keys", [this](const json&) { return json(check(client_->list_keys())); }},
      {"num_keys", [this](const json&) { return check(client_->number_of_keys()); }},
      {"queue_push", [this](const json& order) { return done(client_->queue_push(key_of(order), value_of(order))); }},
      {"queue_pop", [this](const json& order) { return queue_pop(order); }},
      {"queue_len", [this](const json& order) { return check(client_->queue_length(key_of(order))); }},
      {"barrier",
       [this](const json& order) {
         return done(client_->barrier(key_of(order), order.at("count"), timeout_of(order)));
       }},
  };
};

}  // namespace
}  // namespace muster::rendezvous

int main() {
  muster::rendezvous::Driver driver;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << driver.answer(nlohmann::json::parse(line)).dump() << std::endl;
  return 0;
}

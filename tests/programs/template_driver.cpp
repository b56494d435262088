// Renders chat templates as it is told, one JSON object a line: template_driver.
//   {"template": "…", "variables": {…}, "now": [2024, 7, 26, 13, 5, 9]}   now may be left out
// Each is answered with {"text": "…", "generated": [[begin, end], …]} (bytes) or {"error": "…"}.
#include <ctime>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "chat/chat_template.hpp"

namespace muster::chat {
namespace {

using nlohmann::ordered_json;

std::tm time_of(const ordered_json& parts) {
  std::tm time{};
  time.tm_year = parts.at(0).get<int>() - 1900;
  time.tm_mon = parts.at(1).get<int>() - 1;
  time.tm_mday = parts.at(2).get<int>();
  time.tm_hour = parts.at(3).get<int>();
  time.tm_min = parts.at(4).get<int>();
  time.tm_sec = parts.at(5).get<int>();
  time.tm_isdst = -1;
  std::mktime(&time);  // the day of the week and of the year
  return time;
}

class Driver {
 public:
  ordered_json answer(const ordered_json& order) {
    const auto& source = order.at("template").get_ref<const std::string&>();
    auto known = templates_.find(source);
    if (known == templates_.end()) known = templates_.emplace(source, ChatTemplate::parse(source, "template")).first;
    if (!known->second) return {{"error", to_string(known->second.error())}};
    RenderOptions options;
    if (order.contains("now")) options.now = time_of(order["now"]);
    if (order.contains("most_work")) options.most_work = order["most_work"].get<std::size_t>();
    if (order.contains("most_bytes")) options.most_bytes = order["most_bytes"].get<std::size_t>();
    const auto rendered = known->second->render(order.at("variables"), options);
    if (!rendered) return {{"error", to_string(rendered.error())}};
    ordered_json spans = ordered_json::array();
    for (const auto& span : rendered->generated) spans.push_back({span.begin, span.end});
    return {{"text", rendered->text}, {"generated", spans}};
  }

 private:
  std::map<std::string, Result<ChatTemplate>> templates_;
};

}  // namespace
}  // namespace muster::chat

int main() {
  std::ios::sync_with_stdio(false);
  muster::chat::Driver driver;
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto order = nlohmann::ordered_json::parse(line);
    std::cout << driver.answer(order).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    if (std::cin.rdbuf()->in_avail() == 0) std::cout.flush();
  }
}

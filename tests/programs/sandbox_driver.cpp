// Judges programs as it is told, one JSON object a line: sandbox_driver namespaces|Landlock PYTHON.
//   {"program": "…", "tests": "…", "entry_point": "…", "given": "…", "seconds": 10}
// Each is answered with {"verdict", "passed", "total", "detail"} or {"error": "…"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "sandbox/python_judge.hpp"

namespace {

using namespace muster::sandbox;
using nlohmann::json;

json answer(const Sandbox& sandbox, const Interpreter& interpreter, const json& order) {
  Limits limits;
  limits.cpu_time = std::chrono::seconds(order.at("seconds").get<int>());
  const auto text = [&](const char* key) { return order.at(key).get<std::string>(); };
  const auto verdict = judge_python(sandbox, interpreter,
                                    {text("program"), text("tests"), text("entry_point"), text("given")}, limits);
  if (!verdict) return {{"error", to_string(verdict.error())}};
  return {{"verdict", to_string(verdict->kind)},
          {"passed", verdict->passed},
          {"total", verdict->total},
          {"detail", verdict->detail}};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const auto sandbox =
      Sandbox::open(std::string(arguments[1]) == "namespaces" ? Isolation::namespaces : Isolation::landlock);
  const auto interpreter = find_interpreter(arguments[2]);
  if (!sandbox || !interpreter) {
    std::cerr << to_string(sandbox ? interpreter.error() : sandbox.error()) << "\n";
    return 3;
  }
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(*sandbox, *interpreter, json::parse(line)).dump(-1, ' ', false, json::error_handler_t::replace)
              << std::endl;
}

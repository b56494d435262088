// The tools that a model may call in environment.type=tool.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "environment/row_fields.hpp"
#include "sandbox/python_judge.hpp"

namespace muster::environment {

// What an answer asks for.
struct ToolCall {
  std::string name;
  Row arguments;
};
// The first <tool_call>{"name": …, "arguments": {…}}</tool_call> of an answer. Absent: it has none. Refused: it is not whole.
Result<std::optional<ToolCall>> tool_call_of(const std::string& answer);

// Where programs run.
struct ToolSandbox {
  sandbox::Sandbox sandbox;
  sandbox::Interpreter interpreter;
  sandbox::Limits limits;
};

// The tools of a row: those that its "tools" names, else the calculator, and a search where it has "documents".
class Toolbox {
 public:
  // Refused: a tool that is not there; a search without documents, and python where sandbox is null.
  static Result<Toolbox> of_row(const Row& row, const ToolSandbox* sandbox);

  bool has(std::string_view name) const;
  // For the model.
  std::string description() const;
  // What the tool says, also where it could not do what it was asked. An Error: the tool itself failed, whatever it was asked.
  Result<std::string> use(const ToolCall& call) const;

 private:
  std::string search(const std::string& query) const;
  Result<std::string> run_python(const std::string& program) const;

  std::vector<std::string> names_;
  std::vector<std::string> documents_;
  const ToolSandbox* sandbox_ = nullptr;
};

}  // namespace muster::environment

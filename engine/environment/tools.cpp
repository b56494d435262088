#include "environment/tools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "environment/calculator.hpp"
#include "environment/words.hpp"
#include "json/json_text.hpp"

namespace muster::environment {
namespace {

constexpr std::string_view call_begins = "<tool_call>", call_ends = "</tool_call>";

struct KnownTool {
  std::string_view name, argument, purpose;
};
constexpr std::array known_tools{
    KnownTool{"calculator", "expression", "the value of an expression, as in 2 * (3 + sqrt(16))"},
    KnownTool{"search", "query", "the document that fits the words of a query best"},
    KnownTool{"python", "code", "what a program in Python prints"}};

const KnownTool* find_tool(std::string_view name) {
  const auto found = std::ranges::find(known_tools, name, &KnownTool::name);
  return found == known_tools.end() ? nullptr : &*found;
}

std::vector<std::string> documents_of(const Row& row) {
  std::vector<std::string> documents;
  const auto found = row.find("documents");
  if (found == row.end() || !found->is_array()) return documents;
  for (const Row& document : *found) {
    if (document.is_string()) documents.push_back(document.get<std::string>());
    if (document.is_object()) {
      const std::string title = text_of(document, {"title"}).value_or("");
      documents.push_back(title + (title.empty() ? "" : "\n") + text_of(document, {"text", "content"}).value_or(""));
    }
  }
  return documents;
}

}  // namespace

Result<std::optional<ToolCall>> tool_call_of(const std::string& answer) {
  const auto begin = answer.find(call_begins);
  if (begin == std::string::npos) return std::optional<ToolCall>();
  const auto first = begin + call_begins.size();
  const auto end = answer.find(call_ends, first);
  const Error malformed = bad_input("the call is not whole",
                                    R"(<tool_call>{"name": "calculator", "arguments": {"expression": "2 * 3"}}</tool_call>)");
  if (end == std::string::npos) return malformed;
  const auto call = parse_ordered_json_object(trim(std::string_view(answer).substr(first, end - first)), "the call");
  if (!call || !call->contains("name") || !call->at("name").is_string() || !call->contains("arguments") ||
      !call->at("arguments").is_object())
    return malformed;
  return std::optional(ToolCall{call->at("name").get<std::string>(), call->at("arguments")});
}

Result<Toolbox> Toolbox::of_row(const Row& row, const ToolSandbox* sandbox) {
  Toolbox box;
  box.sandbox_ = sandbox;
  box.documents_ = documents_of(row);
  box.names_ = texts_of(row, "tools");
  if (box.names_.empty()) box.names_.emplace_back("calculator");
  if (!row.contains("tools") && !box.documents_.empty()) box.names_.emplace_back("search");
  for (const std::string& name : box.names_) {
    if (find_tool(name) == nullptr)
      return bad_input(fmt::format("its \"tools\" names \"{}\"", name), "of calculator, search and python");
    if (name == "search" && box.documents_.empty())
      return bad_input("it has a search, and nothing to search", R"(add "documents": ["…"])");
    if (name == "python" && sandbox == nullptr) {
      if (const auto opened = sandbox::Sandbox::open(); !opened) return opened.error();
      return bad_input("there is no Python for the tool python", "environment.python=PATH");
    }
  }
  return box;
}

bool Toolbox::has(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

std::string Toolbox::description() const {
  std::string text =
      "You can call tools, one in a message, like this:\n"
      "<tool_call>{\"name\": \"NAME\", \"arguments\": {\"ARGUMENT\": \"…\"}}</tool_call>\n"
      "What it gives comes in the next message. A message without a call is your final answer. The tools:";
  for (const std::string& name : names_) {
    const KnownTool& tool = *find_tool(name);
    text += fmt::format("\n{}, with the argument \"{}\": {}", tool.name, tool.argument, tool.purpose);
  }
  return text;
}

Result<std::string> Toolbox::use(const ToolCall& call) const {
  const KnownTool& tool = *find_tool(call.name);
  const auto argument = text_of(call.arguments, {tool.argument.data()});
  if (!argument) return fmt::format("{} needs the argument \"{}\", a text", tool.name, tool.argument);
  if (tool.name == "search") return search(*argument);
  if (tool.name == "python") return run_python(*argument);
  const auto value = calculate(*argument);
  return value ? *value : fmt::format("{}: {}", value.error().what, value.error().remedy);
}

// The most words of the query; of several, the first.
std::string Toolbox::search(const std::string& query) const {
  const auto wanted = content_words(query);
  double best = 0;
  const std::string* found = nullptr;
  for (const std::string& document : documents_)
    if (const double share = share_within(wanted, content_words(document)); share > best) {
      best = share;
      found = &document;
    }
  return found == nullptr ? "nothing was found" : *found;
}

Result<std::string> Toolbox::run_python(const std::string& program) const {
  sandbox::Order order;
  order.command = {sandbox_->interpreter.program.string(), "-I", "-"};
  order.input = program;
  order.visible = sandbox_->interpreter.folders;
  order.environment = {{"PYTHONHASHSEED", "0"}};
  const auto outcome = sandbox_->sandbox.run(std::move(order), sandbox_->limits);
  if (!outcome) return outcome.error();
  if (outcome->exceeded) return fmt::format("the program was ended: {}", to_string(*outcome->exceeded));
  std::string text = outcome->output + outcome->errors;
  if (!is_utf8(text))
    for (char& c : text)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return trim(text).empty() ? "(nothing was printed)" : std::string(trim(text));
}

}  // namespace muster::environment

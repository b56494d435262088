#include "sweep/sweep_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "sweep/sweep_file.hpp"
#include "sweep/trial_command.hpp"

namespace muster::sweep {
namespace {

// A file is W&B's if it uses anything that only W&B has.
bool is_wandb(const Node& root) {
  for (const std::string_view key : {"early_terminate", "run_cap", "project", "entity"})
    if (root.find(key) != nullptr) return true;
  const Node* metric = root.find("metric");
  if (metric != nullptr) return metric->kind == Node::Kind::table;
  return root.find("program") != nullptr && root.find("goal") == nullptr;
}

// What holds for every sweep, of either kind of file.
void check_whole(NodeReader& reader, const Node& root, const SweepSpec& spec) {
  if (spec.metric.empty())
    reader.refuse(root.position, "metric is missing",
                  "name the number that trials are compared by, as in metric: eval_loss");
  if (spec.space.parameters.empty() && reader.problems().empty())
    reader.refuse(root.position, "no parameters", "name at least one under parameters");
  if (spec.method != Method::grid) return;
  for (const Parameter& parameter : spec.space.parameters)
    if (!count_values(parameter))
      reader.refuse(root.position, fmt::format("method is grid, and {} can be any number", parameter.path),
                    "name its values, as in values: [0.001, 0.01], or use method random or bayes");
  if (reader.problems().empty() && !count_points(spec.space))
    reader.refuse(root.position, "method is grid, and the points of the grid are more than 2^53",
                  "name fewer values, or use method random or bayes");
}

}  // namespace

std::string_view word(Method method) {
  constexpr std::array<std::string_view, 3> words{"grid", "random", "bayes"};
  return words[static_cast<std::size_t>(method)];
}

std::optional<Goal> read_goal(NodeReader& reader, const Node& node) {
  for (const Goal goal : {Goal::maximize, Goal::minimize})
    if (node.kind == Node::Kind::scalar && node.text == word(goal)) return goal;
  reader.refuse(node.position, fmt::format("goal is {}", describe(node)), "it must be maximize or minimize");
  return std::nullopt;
}

std::optional<Method> read_method(NodeReader& reader, const Node& node) {
  for (const Method method : {Method::grid, Method::random, Method::bayes})
    if (node.kind == Node::Kind::scalar && node.text == word(method)) return method;
  reader.refuse(node.position, fmt::format("method is {}", describe(node)), "it must be grid, random or bayes");
  return std::nullopt;
}

std::optional<double> read_eta(NodeReader& reader, const Node& node) {
  const auto eta = reader.quantity(node);
  if (!eta || *eta > 1) return eta;
  reader.refuse_value(node, "a number above 1");
  return std::nullopt;
}

std::vector<std::string> read_command(NodeReader& reader, const Node& node) {
  std::vector<std::string> words;
  if (node.kind == Node::Kind::scalar) {
    for (const std::string& word : split(node.text, ' '))
      if (!word.empty()) words.push_back(word);
  } else if (node.kind == Node::Kind::list) {
    for (const Node& item : node.items) {
      if (item.kind == Node::Kind::scalar)
        words.push_back(item.text);
      else
        reader.refuse(item.position, fmt::format("command holds {}", describe(item)), "it must be a list of words");
    }
  }
  if (words.empty())
    reader.refuse(node.position, fmt::format("command is {}", describe(node)), "it must be a list of words");
  for (const std::string& word : words)
    if (auto problem = check_command_word(word))
      reader.refuse(node.position, "command: " + problem->what, std::move(problem->remedy));
  return words;
}

void add_parameter(NodeReader& reader, const ParameterDraft& draft, Space& space) {
  if (std::ranges::any_of(space.parameters, [&](const Parameter& known) { return known.path == draft.path; }))
    return reader.refuse(draft.position, fmt::format("{} a second time", draft.path), "name each parameter once");
  if (auto parameter = complete(reader, draft)) space.parameters.push_back(std::move(*parameter));
}

Result<SweepSpec> read_sweep_spec(std::string_view text, std::string_view source) {
  const auto root = parse_document(text, source);
  if (!root) return root.error();
  NodeReader reader(source);
  SweepSpec spec;
  if (root->kind != Node::Kind::table) {
    reader.refuse(root->position, fmt::format("the file is {}", describe(*root)),
                  "a sweep has metric, goal, method and parameters: docs/sweep.md");
  } else {
    spec = is_wandb(*root) ? read_wandb_file(reader, *root) : read_native_file(reader, *root);
    check_whole(reader, *root, spec);
  }
  if (!reader.problems().empty()) return to_error(reader.problems());
  return spec;
}

}  // namespace muster::sweep

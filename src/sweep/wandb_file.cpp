#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.hpp"
#include "sweep/sweep_file.hpp"

namespace muster::sweep {
namespace {

constexpr std::int64_t largest_number = std::int64_t{1} << 53;

// A parameter as W&B writes it, node by node.
using Keys = std::map<std::string, const Node*, std::less<>>;

constexpr std::string_view accepted_distributions =
    "accepted: constant, categorical, int_uniform, uniform, q_uniform, log_uniform, log_uniform_values, "
    "q_log_uniform_values";

// Which keys a distribution goes with.
struct Kind {
  std::string_view name;
  Distribution distribution;
  bool stepped;    // has q
  bool exponents;  // min and max are natural logarithms
};

constexpr std::array<Kind, 6> intervals{{
    {"uniform", Distribution::uniform, false, false},
    {"int_uniform", Distribution::int_uniform, false, false},
    {"q_uniform", Distribution::uniform, true, false},
    {"log_uniform", Distribution::log_uniform, false, true},
    {"log_uniform_values", Distribution::log_uniform, false, false},
    {"q_log_uniform_values", Distribution::log_uniform, true, false},
}};

std::string refused_distribution(std::string_view name) {
  for (const std::string_view unbounded : {"normal", "q_normal", "log_normal", "q_log_normal"})
    if (name == unbounded) return fmt::format("{} has no bounds; {}", name, accepted_distributions);
  return std::string(accepted_distributions);
}

class ParameterTable {
 public:
  ParameterTable(NodeReader& reader, ParameterDraft& draft, const Keys& keys)
      : reader_(reader), draft_(draft), keys_(keys) {}

  void read() {
    if (const Node* node = find("distribution"))
      read_named(*node, node->kind == Node::Kind::scalar ? node->text : "");
    else if (find("value") != nullptr)
      read_constant();
    else if (find("values") != nullptr)
      read_list();
    else
      read_interval(inferred());
  }

 private:
  const Node* find(std::string_view key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? nullptr : found->second;
  }

  std::string what(std::string_view key) const { return fmt::format("{}: {}", draft_.path, key); }

  void read_named(const Node& node, std::string_view name) {
    if (name == "constant") return read_constant();
    if (name == "categorical") return read_list();
    for (const Kind& kind : intervals)
      if (kind.name == name) return read_interval(kind);
    reader_.refuse(node.position, fmt::format("{}: distribution is {}", draft_.path, describe(node)),
                   refused_distribution(name));
  }

  // Whole bounds mean whole numbers, as in W&B.
  Kind inferred() const {
    for (const std::string_view key : {"min", "max"}) {
      const Node* node = find(key);
      if (node != nullptr && !parse_number<std::int64_t>(node->text)) return intervals[0];
    }
    return intervals[1];
  }

  void allow(std::initializer_list<std::string_view> allowed) {
    for (const auto& [key, node] : keys_)
      if (key != "distribution" && std::ranges::find(allowed, key) == allowed.end())
        reader_.refuse(node->position, fmt::format("{}: {} beside {}", draft_.path, key, *allowed.begin()),
                       "remove one of the two");
  }

  void read_constant() {
    allow({"value"});
    draft_.distribution = Distribution::constant;
    const Node* node = find("value");
    const auto value = node != nullptr ? read_value(*node) : std::nullopt;
    if (value)
      draft_.values = {*value};
    else
      reader_.refuse(node != nullptr ? node->position : draft_.position,
                     fmt::format("{} is {}", what("value"), node != nullptr ? describe(*node) : "missing"),
                     "it must be a number, a word, true or false");
  }

  void read_list() {
    allow({"values"});
    draft_.distribution = Distribution::values;
    if (const Node* node = find("values"))
      draft_.values = read_values(reader_, what("values"), *node);
    else
      reader_.refuse(draft_.position, what("values") + " is missing", "name them, as in values: [8, 16]");
  }

  void read_interval(const Kind& kind) {
    if (kind.stepped)
      allow({"min", "max", "q"});
    else
      allow({"min", "max"});
    draft_.distribution = kind.distribution;
    if (const Node* node = find("min")) draft_.min = read_number(reader_, what("min"), *node);
    if (const Node* node = find("max")) draft_.max = read_number(reader_, what("max"), *node);
    if (kind.exponents && draft_.min && draft_.max) {
      draft_.min = std::exp(*draft_.min);
      draft_.max = std::exp(*draft_.max);
    }
    if (!kind.stepped) return;
    draft_.step = 1;
    if (const Node* node = find("q")) draft_.step = read_number(reader_, what("q"), *node);
  }

  NodeReader& reader_;
  ParameterDraft& draft_;
  const Keys& keys_;
};

void read_parameters(NodeReader& reader, const Node& node, const std::string& prefix, Space& space);

void read_parameter(NodeReader& reader, const Node::Entry& entry, const std::string& path, Space& space) {
  if (entry.value.kind != Node::Kind::table)
    return reader.refuse(entry.position, fmt::format("{} is {}", path, describe(entry.value)),
                         "it must be a table with value, values, or min and max");
  const std::size_t before = reader.problems().size();
  const std::vector<std::string> known{"distribution", "min", "max", "q", "value", "values", "parameters"};
  Keys keys;
  for (const Node::Entry& key : entry.value.entries) {
    if (std::ranges::find(known, key.key) == known.end())
      reader.refuse(key.position, fmt::format("{}: {} is not accepted", path, key.key),
                    fmt::format("known keys: {}", join(known, ", ")));
    else
      keys.emplace(key.key, &key.value);
  }
  if (const auto nested = keys.find("parameters"); nested != keys.end()) {
    if (keys.size() > 1)
      reader.refuse(entry.position, fmt::format("{}: parameters beside other keys", path), "keep parameters alone");
    return read_parameters(reader, *nested->second, path, space);
  }
  ParameterDraft draft;
  draft.path = path;
  draft.position = entry.position;
  ParameterTable(reader, draft, keys).read();
  if (reader.problems().size() == before) add_parameter(reader, draft, space);
}

void read_parameters(NodeReader& reader, const Node& node, const std::string& prefix, Space& space) {
  if (node.kind != Node::Kind::table) return reader.refuse_value(node, "a table of parameters");
  for (const Node::Entry& entry : node.entries)
    read_parameter(reader, entry, prefix.empty() ? entry.key : prefix + "." + entry.key, space);
}

const std::array metric_keys{
    NodeKey<SweepSpec>{"name", [](NodeReader& r, const Node& v, SweepSpec& t) { t.metric = r.text(v).value_or("?"); }},
    NodeKey<SweepSpec>{"goal",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { t.goal = read_goal(r, v).value_or(t.goal); }},
};

struct Hyperband {
  bool named = false;
  std::optional<std::int64_t> least, most_steps, count;
  double eta = 3;
};

const std::array hyperband_keys{
    NodeKey<Hyperband>{"type",
                       [](NodeReader& r, const Node& v, Hyperband& t) {
                         t.named = v.text == "hyperband";
                         if (!t.named) r.refuse_value(v, "hyperband");
                       }},
    NodeKey<Hyperband>{"min_iter", [](NodeReader& r, const Node& v, Hyperband& t) { t.least = r.integer(v, 1, largest_number); }},
    NodeKey<Hyperband>{"max_iter",
                       [](NodeReader& r, const Node& v, Hyperband& t) { t.most_steps = r.integer(v, 1, largest_number); }},
    NodeKey<Hyperband>{"s", [](NodeReader& r, const Node& v, Hyperband& t) { t.count = r.integer(v, 1, 64); }},
    NodeKey<Hyperband>{"eta",
                       [](NodeReader& r, const Node& v, Hyperband& t) { t.eta = read_eta(r, v).value_or(t.eta); }},
};

void read_hyperband(NodeReader& reader, const Node& node, SweepSpec& spec) {
  Hyperband keys;
  const std::size_t before = reader.problems().size();
  reader.table<Hyperband>(node, hyperband_keys, keys);
  if (reader.problems().size() > before) return;
  const bool from_least = keys.least && !keys.most_steps && !keys.count;
  const bool below_most = !keys.least && keys.most_steps && keys.count;
  if (!keys.named || from_least == below_most)
    return reader.refuse_value(node, "a table with type: hyperband and either min_iter, or max_iter and s");
  spec.early_stop = EarlyStop{from_least ? rungs_from_least(*keys.least, keys.eta, largest_number)
                                         : rungs_below_most(*keys.most_steps, keys.eta, *keys.count),
                              keys.eta, 1};
}

const std::array wandb_keys{
    NodeKey<SweepSpec>{"program",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { t.program = r.text(v).value_or(""); }},
    NodeKey<SweepSpec>{
        "method", [](NodeReader& r, const Node& v, SweepSpec& t) { t.method = read_method(r, v).value_or(t.method); }},
    NodeKey<SweepSpec>{"metric",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { r.table<SweepSpec>(v, metric_keys, t); }},
    NodeKey<SweepSpec>{"parameters",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { read_parameters(r, v, "", t.space); }},
    NodeKey<SweepSpec>{"early_terminate", read_hyperband},
    NodeKey<SweepSpec>{"command", [](NodeReader& r, const Node& v, SweepSpec& t) { t.command = read_command(r, v); }},
    NodeKey<SweepSpec>{"run_cap",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { t.limits.trials = r.integer(v, 1, largest_number); }},
};

}  // namespace

SweepSpec read_wandb_file(NodeReader& reader, const Node& root) {
  SweepSpec spec;
  spec.goal = Goal::minimize;  // if W&B's metric does not say
  reader.table<SweepSpec>(root, wandb_keys, spec);
  if (root.find("method") == nullptr)
    reader.refuse(root.position, "method is missing", "write method: grid, random or bayes");
  if (!spec.program.empty() && spec.command.empty())
    spec.command = {"${env}", "${interpreter}", "${program}", "${args}"};
  return spec;
}

}  // namespace muster::sweep

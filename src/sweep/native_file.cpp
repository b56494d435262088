#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "sweep/sweep_file.hpp"

namespace muster::sweep {
namespace {

constexpr std::int64_t largest_count = std::int64_t{1} << 53;

constexpr std::array<std::pair<std::string_view, Distribution>, 8> distributions{{
    {"uniform", Distribution::uniform},
    {"int_uniform", Distribution::int_uniform},
    {"uniform_pow2", Distribution::uniform_pow2},
    {"log_uniform", Distribution::log_uniform},
    {"log_normal", Distribution::log_normal},
    {"logit_normal", Distribution::logit_normal},
    {"categorical", Distribution::categorical},
    {"constant", Distribution::constant},
}};

const std::vector<std::string> parameter_keys{"distribution", "min", "max", "mean", "scale", "step", "value", "values"};

bool is_parameter_key(std::string_view key) { return std::ranges::find(parameter_keys, key) != parameter_keys.end(); }

// A table describes a parameter if one of its keywords has a value that is not a table; else it is a section.
bool is_parameter(const Node& node) {
  return std::ranges::any_of(node.entries, [](const Node::Entry& entry) {
    return is_parameter_key(entry.key) && entry.value.kind != Node::Kind::table;
  });
}

void read_distribution(NodeReader& reader, const Node& node, ParameterDraft& draft) {
  std::vector<std::string> words;
  for (const auto& [word, distribution] : distributions) {
    if (node.kind == Node::Kind::scalar && node.text == word) draft.distribution = distribution;
    words.emplace_back(word);
  }
  if (draft.distribution) return;
  reader.refuse(node.position, fmt::format("{}: distribution is {}", draft.path, describe(node)),
                fmt::format("it must be one of {}", join(words, ", ")));
  draft.distribution = Distribution::uniform;  // already reported as wrong
}

void read_scale(NodeReader& reader, const Node& node, ParameterDraft& draft) {
  if (node.kind == Node::Kind::scalar && node.text == "auto") return;
  if (node.kind == Node::Kind::scalar && node.text == "time") {
    draft.scale = ParameterDraft::Scale::time;
    return;
  }
  const auto number = node.kind == Node::Kind::scalar && !node.quoted ? parse_number<double>(node.text) : std::nullopt;
  if (number && std::isfinite(*number) && *number > 0)
    draft.scale = *number;
  else
    reader.refuse(node.position, fmt::format("{}: scale is {}", draft.path, describe(node)),
                  "it must be auto, time or a number above 0");
}

void read_parameter_key(NodeReader& reader, const Node::Entry& entry, ParameterDraft& draft) {
  const std::string what = fmt::format("{}: {}", draft.path, entry.key);
  const auto list = [&](std::vector<Value> values, Distribution distribution) {
    if (!draft.values.empty()) reader.refuse(entry.position, draft.path + ": value and values", "keep one of the two");
    draft.values = std::move(values);
    if (!draft.distribution) draft.distribution = distribution;
  };
  if (entry.key == "distribution") return read_distribution(reader, entry.value, draft);
  if (entry.key == "scale") return read_scale(reader, entry.value, draft);
  if (entry.key == "values") return list(read_values(reader, what, entry.value), Distribution::values);
  if (entry.key == "value") {
    if (auto value = read_value(entry.value)) return list({std::move(*value)}, Distribution::constant);
    return reader.refuse(entry.value.position, fmt::format("{} is {}", what, describe(entry.value)),
                         "it must be a number, a word, true or false");
  }
  const auto number = read_number(reader, what, entry.value);
  if (entry.key == "min") draft.min = number;
  if (entry.key == "max") draft.max = number;
  if (entry.key == "mean") draft.mean = number;
  if (entry.key == "step") draft.step = number;
}

void read_parameter(NodeReader& reader, const Node& node, ParameterDraft draft, Space& space) {
  const std::size_t before = reader.problems().size();
  for (const Node::Entry& entry : node.entries) {
    if (is_parameter_key(entry.key)) {
      read_parameter_key(reader, entry, draft);
      continue;
    }
    const auto meant = nearest(entry.key, parameter_keys);
    reader.refuse(entry.position, fmt::format("{}: unknown key \"{}\"", draft.path, entry.key),
                  meant ? fmt::format("did you mean \"{}\"?", *meant)
                        : fmt::format("known keys: {}", join(parameter_keys, ", ")));
  }
  if (reader.problems().size() == before) add_parameter(reader, draft, space);
}

void read_parameters(NodeReader& reader, const Node& node, const std::string& prefix, Space& space) {
  for (const Node::Entry& entry : node.entries) {
    ParameterDraft draft;
    draft.path = prefix.empty() ? entry.key : prefix + "." + entry.key;
    draft.position = entry.position;
    if (entry.value.kind == Node::Kind::list) {
      draft.distribution = Distribution::values;
      draft.values = read_values(reader, draft.path, entry.value);
      add_parameter(reader, draft, space);
    } else if (const auto value = read_value(entry.value)) {
      draft.distribution = Distribution::constant;
      draft.values = {*value};
      add_parameter(reader, draft, space);
    } else if (entry.value.kind == Node::Kind::table && !entry.value.entries.empty()) {
      if (is_parameter(entry.value))
        read_parameter(reader, entry.value, std::move(draft), space);
      else
        read_parameters(reader, entry.value, draft.path, space);
    } else {
      reader.refuse(entry.position, fmt::format("{} is {}", draft.path, describe(entry.value)),
                    "write {distribution: …, min: …, max: …}, a list of values, or one value");
    }
  }
}

std::optional<double> read_seconds(NodeReader& reader, const Node& node) {
  if (node.kind == Node::Kind::scalar) {
    if (const auto number = parse_number<double>(node.text); number && std::isfinite(*number) && *number > 0)
      return number;
    if (const auto span = parse_duration(node.text); span && span->count() > 0)
      return static_cast<double>(span->count()) / 1000;
  }
  reader.refuse_value(node, "a time, as in 90, 30m or 2h");
  return std::nullopt;
}

const std::array limit_keys{
    NodeKey<Limits>{"trials", [](NodeReader& r, const Node& v, Limits& t) { t.trials = r.integer(v, 1, largest_count); }},
    NodeKey<Limits>{"seconds", [](NodeReader& r, const Node& v, Limits& t) { t.seconds = read_seconds(r, v); }},
    NodeKey<Limits>{"trial_seconds",
                    [](NodeReader& r, const Node& v, Limits& t) { t.trial_seconds = read_seconds(r, v); }},
    NodeKey<Limits>{"trial_timeout",
                    [](NodeReader& r, const Node& v, Limits& t) { t.trial_timeout = read_seconds(r, v); }},
    NodeKey<Limits>{"consecutive_failures",
                    [](NodeReader& r, const Node& v, Limits& t) {
                      t.consecutive_failures = r.integer(v, 1, largest_count).value_or(t.consecutive_failures);
                    }},
};

const std::array bayes_keys{
    NodeKey<BayesOptions>{
        "first_trials", [](NodeReader& r, const Node& v, BayesOptions& t) { t.first_trials = r.integer(v, 1, largest_count); }},
    NodeKey<BayesOptions>{"cost_weight",
                          [](NodeReader& r, const Node& v, BayesOptions& t) {
                            t.cost_weight = r.quantity(v);
                            if (t.cost_weight && *t.cost_weight > 1) r.refuse_value(v, "a number from 0 to 1");
                          }},
};

struct EarlyStopKeys {
  std::string method = "successive_halving";
  std::optional<std::int64_t> least, most_steps;
  double eta = 3;
};

const std::array early_stop_keys{
    NodeKey<EarlyStopKeys>{"method",
                           [](NodeReader& r, const Node& v, EarlyStopKeys& t) {
                             if (v.text == "successive_halving" || v.text == "hyperband")
                               t.method = v.text;
                             else
                               r.refuse_value(v, "successive_halving or hyperband");
                           }},
    NodeKey<EarlyStopKeys>{"min_steps",
                           [](NodeReader& r, const Node& v, EarlyStopKeys& t) { t.least = r.integer(v, 1, largest_count); }},
    NodeKey<EarlyStopKeys>{
        "max_steps", [](NodeReader& r, const Node& v, EarlyStopKeys& t) { t.most_steps = r.integer(v, 1, largest_count); }},
    NodeKey<EarlyStopKeys>{
        "eta", [](NodeReader& r, const Node& v, EarlyStopKeys& t) { t.eta = read_eta(r, v).value_or(t.eta); }},
};

void read_early_stop(NodeReader& reader, const Node& node, SweepSpec& spec) {
  EarlyStopKeys keys;
  const std::size_t before = reader.problems().size();
  reader.table<EarlyStopKeys>(node, early_stop_keys, keys);
  if (reader.problems().size() > before) return;
  if (!keys.least || !keys.most_steps || *keys.least >= *keys.most_steps)
    return reader.refuse_value(
        node,
        "a table with min_steps, the first step at which trials are compared, and max_steps, how many a "
        "whole trial has, which is more");
  EarlyStop rule{rungs_from_least(*keys.least, keys.eta, *keys.most_steps), keys.eta, 1};
  if (keys.method == "hyperband") rule.ladders = static_cast<std::int64_t>(rule.rungs.size());
  spec.early_stop = std::move(rule);
}

const std::array native_keys{
    NodeKey<SweepSpec>{"metric",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { t.metric = r.text(v).value_or("?"); }},
    NodeKey<SweepSpec>{"goal",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { t.goal = read_goal(r, v).value_or(t.goal); }},
    NodeKey<SweepSpec>{
        "method", [](NodeReader& r, const Node& v, SweepSpec& t) { t.method = read_method(r, v).value_or(t.method); }},
    NodeKey<SweepSpec>{"parameters",
                       [](NodeReader& r, const Node& v, SweepSpec& t) {
                         if (v.kind == Node::Kind::table)
                           read_parameters(r, v, "", t.space);
                         else
                           r.refuse_value(v, "a table of parameters");
                       }},
    NodeKey<SweepSpec>{"limits",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { r.table<Limits>(v, limit_keys, t.limits); }},
    NodeKey<SweepSpec>{"seed",
                       [](NodeReader& r, const Node& v, SweepSpec& t) {
                         t.seed = static_cast<std::uint64_t>(r.integer(v, 0, largest_count).value_or(0));
                       }},
    NodeKey<SweepSpec>{"early_stop", read_early_stop},
    NodeKey<SweepSpec>{
        "bayes", [](NodeReader& r, const Node& v, SweepSpec& t) { r.table<BayesOptions>(v, bayes_keys, t.bayes); }},
    NodeKey<SweepSpec>{"command", [](NodeReader& r, const Node& v, SweepSpec& t) { t.command = read_command(r, v); }},
    NodeKey<SweepSpec>{"evaluate", [](NodeReader& r, const Node& v, SweepSpec& t) { t.evaluate = read_command(r, v); }},
    NodeKey<SweepSpec>{"heartbeat",
                       [](NodeReader& r, const Node& v, SweepSpec& t) {
                         if (v.text != "0") t.heartbeat = read_seconds(r, v);
                       }},
    NodeKey<SweepSpec>{"program",
                       [](NodeReader& r, const Node& v, SweepSpec& t) { t.program = r.text(v).value_or(""); }},
};

}  // namespace

SweepSpec read_native_file(NodeReader& reader, const Node& root) {
  SweepSpec spec;
  reader.table<SweepSpec>(root, native_keys, spec);
  if (root.find("goal") == nullptr)
    reader.refuse(root.position, "goal is missing", "write goal: maximize or goal: minimize");
  return spec;
}

}  // namespace muster::sweep

#include "spec/environment/evaluation_environments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "spec/codec.hpp"

namespace muster::spec {
namespace {

// A key that guide 0's files have, with what it must say where nothing can be done with it; empty: anything.
struct PassedOver {
  std::string_view key, accepted, remedy;
};
constexpr std::array passed_over{
    PassedOver{"mode", "client|server", "leave it out"},
    PassedOver{"remote", "false", "environments are played by the ranks themselves: leave it out"},
    PassedOver{"server_address", "null", "environments are played by the ranks themselves: leave it out"},
    PassedOver{"problems", "null", "write them as JSON lines, and name the file as data"},
    PassedOver{"custom_class", "null", "of code, math, tool and debate"},
    PassedOver{"custom_kwargs", "null", "of code, math, tool and debate"},
    PassedOver{"difficulty_range", "", ""},
};

struct Reader {
  EvaluationEnvironment made;
  bool has_type = false;
  std::vector<std::string> unused;

  Result<void> take(const std::string& key, const Node& node) {
    if (key == "type" || key == "env_type") {
      has_type = true;
      return set(key, node, made.type);
    }
    if (key == "data" || key == "dataset" || key == "path") return set(key, node, made.data);
    if (key == "max_episode_length" || key == "max_turns") return set(key, node, made.max_episode_length, 1);
    if (key == "max_attempts") return set(key, node, made.max_attempts, 1);
    if (key == "rounds") return set(key, node, made.rounds, 1);
    if (key == "reward_steps") return set(key, node, made.reward_steps);
    if (key == "timeout") return set(key, node, made.timeout, 1e-3);
    if (key == "reward_scale") return set(key, node, made.reward_scale);
    if (key == "reward_bias") return set(key, node, made.reward_bias);
    if (key == "reward_clip") return set(key, node, made.reward_clip, 0);
    return pass_over(key, node);
  }

 private:
  template <class Value>
  static Result<void> set(const std::string& key, const Node& node, Value& value) {
    auto found = read(node, static_cast<const Value*>(nullptr));
    if (!found) return Error{Error::Kind::bad_input, fmt::format("has an environment whose {} {}", key, found.error().what),
                             found.error().remedy};
    value = std::move(*found);
    return {};
  }
  template <class Value>
  static Result<void> set(const std::string& key, const Node& node, std::optional<Value>& value, double least) {
    if (auto done = set(key, node, value); !done) return done;
    if (!value || static_cast<double>(*value) >= least) return {};
    return Error{Error::Kind::bad_input, fmt::format("has an environment whose {} is {}", key, write(*value)),
                 fmt::format("accepted: at least {}", least)};
  }

  Result<void> pass_over(const std::string& key, const Node& node) {
    const auto found = std::ranges::find(passed_over, key, &PassedOver::key);
    if (found == passed_over.end())
      return Error{Error::Kind::bad_input, fmt::format("has an environment with \"{}\", which environments do not have", key),
                   accepted(static_cast<const EvaluationEnvironments*>(nullptr))};
    const bool is_empty = is_absent(node) || (node.kind == Node::Kind::table && node.entries.empty());
    const std::vector<std::string> words = split(found->accepted, '|');
    const bool fits = is_empty || found->accepted.empty() ||
                      (node.kind == Node::Kind::scalar && std::ranges::find(words, to_lower(node.text)) != words.end());
    if (!fits)
      return Error{Error::Kind::bad_input, fmt::format("has an environment whose {} is {}", key, describe(node)),
                   std::string(found->remedy)};
    if (!is_empty && found->accepted.empty()) unused.push_back(key);
    return {};
  }
};

std::string entry_text(const EvaluationEnvironment& one) {
  std::vector<std::string> items{"type: " + write(one.type)};
  const auto add = [&](const char* key, const auto& value) {
    if (value) items.push_back(fmt::format("{}: {}", key, write(*value)));
  };
  add("data", one.data);
  add("max_episode_length", one.max_episode_length);
  add("max_attempts", one.max_attempts);
  add("rounds", one.rounds);
  add("reward_steps", one.reward_steps);
  add("timeout", one.timeout);
  add("reward_scale", one.reward_scale);
  add("reward_bias", one.reward_bias);
  add("reward_clip", one.reward_clip);
  return fmt::format("{{{}}}", join(items, ", "));
}

}  // namespace

Result<EvaluationEnvironments> read(const Node& node, const EvaluationEnvironments* type) {
  EvaluationEnvironments found;
  if (is_absent(node)) return found;
  if (node.kind != Node::Kind::list) return unexpected(node, accepted(type));
  for (const Node& item : node.items) {
    if (item.kind != Node::Kind::table)
      return Error{Error::Kind::bad_input, fmt::format("holds an entry that is {}", describe(item)), accepted(type)};
    Reader reader;
    for (const Node::Entry& entry : item.entries)
      if (auto taken = reader.take(entry.key, entry.value); !taken) return taken.error();
    if (!reader.has_type) return Error{Error::Kind::bad_input, "has an environment without a type", accepted(type)};
    found.list.push_back(std::move(reader.made));
    for (std::string& key : reader.unused)
      if (std::ranges::find(found.passed_over, key) == found.passed_over.end()) found.passed_over.push_back(std::move(key));
  }
  return found;
}

std::string write(const EvaluationEnvironments& value) {
  std::vector<std::string> items;
  for (const EvaluationEnvironment& one : value.list) items.push_back(entry_text(one));
  return fmt::format("[{}]", join(items, ", "));
}

std::string accepted(const EvaluationEnvironments*) {
  return "a list of tables, as in [{type: math, data: questions.jsonl}]; also max_episode_length, max_attempts, rounds, "
         "reward_steps, timeout, reward_scale, reward_bias, reward_clip";
}

std::string metric_name(const std::vector<EnvironmentKind>& kinds, std::size_t index) {
  const auto end = kinds.begin() + static_cast<std::ptrdiff_t>(index);
  const auto earlier = std::count(kinds.begin(), end, kinds[index]);
  return fmt::format("eval_{}{}", write(kinds[index]), earlier == 0 ? "" : fmt::format("_{}", earlier + 1));
}

}  // namespace muster::spec

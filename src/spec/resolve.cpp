#include "spec/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"
#include "spec/alias.hpp"
#include "spec/capability_command.hpp"
#include "spec/check.hpp"

namespace muster::spec {
namespace {

// Collects values source by source; keeps going after a problem, so that all are reported.
class Resolver {
 public:
  explicit Resolver(const Schema& schema) : schema_(schema) {}

  void read_file(const ConfigurationFile& file) {
    const auto document = parse_document(file.text, file.name);
    if (!document) {
      problems_.push_back({"", document.error().what, document.error().remedy});
      return;
    }
    begin_source();
    if (document->kind == Node::Kind::null) return;
    if (document->kind != Node::Kind::table) {
      problems_.push_back({location(file.name, document->position), "the file is " + describe(*document),
                           "a table of settings is expected"});
      return;
    }
    read_table(*document, "", file.name);
  }

  void read_environment(const std::vector<std::pair<std::string, std::string>>& environment) {
    begin_source();
    std::map<std::string, std::string> key_of_variable;
    for (const std::string& key : schema_.keys()) key_of_variable.emplace(environment_name(key), key);
    std::vector<std::string> known;
    for (const auto& [variable, key] : key_of_variable) known.push_back(variable);
    for (const ReservedVariable& reserved : reserved_variables()) known.emplace_back(reserved.name);
    for (const auto& [variable, value] : environment) {
      if (variable == "GPU_LIST") {
        if (value.empty()) continue;  // as muster launch leaves it to its ranks, whose mask is narrower
        note_once("GPU_LIST is read as distributed.gpu_ids");
        set("distributed.gpu_ids", value_node(value, variable), {Origin::Kind::environment, variable});
      } else if (const auto found = key_of_variable.find(variable); found != key_of_variable.end()) {
        set(found->second, value_node(value, variable), {Origin::Kind::environment, variable});
      } else if (variable.starts_with("MUSTER_") && std::ranges::find(known, variable) == known.end()) {
        const auto near = nearest(variable, known);
        problems_.push_back({variable, "no such setting",
                             near ? fmt::format("did you mean {}? otherwise unset it", *near) : "unset it"});
      }
    }
  }

  void read_overrides(const std::vector<Override>& overrides) {
    begin_source();
    for (const Override& override : overrides)
      place(override.key, value_node(override.value, override.where), {Origin::Kind::command_line, override.where});
  }

  Result<ResolvedSpec> finish() {
    enable_mentioned_algorithms();
    if (remote_environment_ && !resolved_.spec.environment.server)
      problems_.push_back({remote_environment_->where, "policy_env.remote is true, and policy_env.server_address names no server",
                           "server_address: HOST:PORT of muster serve-environments, or remote: false"});
    if (problems_.empty()) {
      settle_precedence(schema_, resolved_);
      problems_ = find_contradictions(schema_, resolved_);
    }
    if (!problems_.empty()) return to_error(problems_);
    return std::move(resolved_);
  }

 private:
  void begin_source() { set_in_this_source_.clear(); }

  void read_table(const Node& table, const std::string& prefix, const std::string& source) {
    for (const Node::Entry& entry : table.entries) {
      const std::string key = prefix + entry.key;
      const std::string where = location(source, entry.position);
      // A section may also be the short form of one of its settings: a table is the section.
      const bool is_section = schema_.find(key) == nullptr && leads_somewhere(key);
      if (is_section && entry.value.kind == Node::Kind::table)
        read_table(entry.value, key + ".", source);
      else if (is_section && schema_.is_section(key) && entry.value.kind == Node::Kind::null)
        continue;  // an empty section
      else
        place(key, entry.value, {Origin::Kind::file, where});
    }
  }

  // A section, or the first part of an alias such as trainer.total_timesteps.
  bool leads_somewhere(const std::string& key) const {
    return schema_.is_section(key) ||
           std::ranges::any_of(aliases(), [&](const Alias& alias) { return alias.spelling.starts_with(key + "."); });
  }

  void place(const std::string& key, const Node& value, const Origin& origin) {
    for (const RefusedKey& refused : refused_keys())
      if (refused.key == key) {
        problems_.push_back({origin.where, fmt::format("{} is refused: {}", key, refused.reason), ""});
        return;
      }
    for (const NeedlessKey& needless : needless_keys())
      if (needless.key == key && (!needless.others_are_read || fits(needless, value))) return pass_over(needless, value, origin);
    const std::string known(canonical_key(key));
    if (known != key) note_once(fmt::format("{} is read as {}", key, known));
    if (schema_.find(known) == nullptr)
      report_unknown(key, origin);
    else
      set(known, value, origin);
  }

  static bool says_nothing(const Node& value) {
    return value.kind == Node::Kind::null || (value.kind == Node::Kind::scalar && (value.text == "null" || value.text == "None")) ||
           (value.kind == Node::Kind::table && value.entries.empty());
  }
  static bool fits(const NeedlessKey& needless, const Node& value) {
    const std::vector<std::string> accepted = split(needless.accepted, '|');
    return needless.accepted.empty() || says_nothing(value) ||
           (value.kind == Node::Kind::scalar && std::ranges::find(accepted, to_lower(value.text)) != accepted.end());
  }

  void pass_over(const NeedlessKey& needless, const Node& value, const Origin& origin) {
    const std::vector<std::string> accepted = split(needless.accepted, '|');
    if (needless.key == "policy_env.remote" && to_lower(value.text) == "true") remote_environment_ = origin;
    if (!fits(needless, value))
      problems_.push_back({origin.where, fmt::format("{} is {}: {}", needless.key, describe(value), needless.reason),
                           fmt::format("leave it out, or write {}", accepted.front())});
    else if (!says_nothing(value))
      note_once(fmt::format("{} changes nothing: {}", needless.key, needless.reason));
  }

  void set(const std::string& key, const Node& value, const Origin& origin) {
    if (!set_in_this_source_.insert(key).second) {
      if (says_the_same(key, value)) return;
      problems_.push_back({origin.where,
                           fmt::format("{} is set a second time (first by {})", key, resolved_.origins[key].where),
                           "keep one"});
      return;
    }
    const auto done = schema_.find(key)->read(resolved_.spec, value);
    if (!done) problems_.push_back({origin.where, fmt::format("{} {}", key, done.error().what), done.error().remedy});
    resolved_.origins[key] = origin;
  }

  // Guide 0's files name some values in two sections.
  bool says_the_same(const std::string& key, const Node& value) const {
    RunSpec other = resolved_.spec;
    const Field& field = *schema_.find(key);
    return field.read(other, value) && field.write(other) == field.write(resolved_.spec);
  }

  void report_unknown(const std::string& key, const Origin& origin) {
    if (schema_.is_section(key)) {
      problems_.push_back({origin.where, fmt::format("{} is a section, not a setting", key),
                           fmt::format("a table is expected, or one of its keys as in {}", first_key_of(key))});
      return;
    }
    // The right name in the wrong place beats a similar one.
    const std::string last = key.substr(key.rfind('.') + 1);
    std::vector<std::string> homes;
    for (const std::string& known : schema_.keys())
      if (known.ends_with("." + last) && !known.starts_with("algos.")) homes.push_back(known);
    std::string remedy = "muster config lists all keys";
    if (!homes.empty())
      remedy = fmt::format("write it as {}", join(homes, " or "));
    else if (const auto near = nearest(key, schema_.keys()))
      remedy = fmt::format("did you mean {}?", *near);
    else if (const auto section = nearest(key.substr(0, key.find('.')), section_names()))
      remedy = fmt::format("did you mean the section {}?", *section);
    problems_.push_back({origin.where, fmt::format("{}: no such setting", key), remedy});
  }

  std::string first_key_of(const std::string& section) const {
    for (const std::string& key : schema_.keys())
      if (key.starts_with(section + ".")) return key;
    return section;
  }

  std::vector<std::string> section_names() const {
    std::vector<std::string> names;
    for (const Section& section : schema_.sections()) names.push_back(section.key);
    return names;
  }

  // The contents of a command-line word or a variable: [..] and {..} are YAML, anything else is one scalar.
  Node value_node(const std::string& text, const std::string& where) {
    const std::string_view trimmed = trim(text);
    if (!trimmed.empty() &&
        (trimmed.front() == '[' || trimmed.front() == '{' || trimmed.front() == '"' || trimmed.front() == '\'')) {
      if (auto parsed = parse_document(trimmed, where)) return std::move(*parsed);
    }
    Node node;
    node.kind = Node::Kind::scalar;
    node.text = trimmed;
    return node;
  }

  void enable_mentioned_algorithms() {
    for (const Section& section : schema_.sections()) {
      if (!section.key.starts_with("algos.")) continue;
      const std::string key = section.key + ".enabled";
      if (resolved_.origins.contains(key)) continue;
      const auto mentioned = std::ranges::find_if(
          resolved_.origins, [&](const auto& entry) { return entry.first.starts_with(section.key + "."); });
      if (mentioned == resolved_.origins.end()) continue;
      Node yes;
      yes.kind = Node::Kind::scalar;
      yes.text = "true";
      static_cast<void>(schema_.find(key)->read(resolved_.spec, yes));
      resolved_.origins[key] = mentioned->second;
    }
  }

  void note_once(std::string note) {
    if (std::ranges::find(resolved_.notes, note) == resolved_.notes.end()) resolved_.notes.push_back(std::move(note));
  }

  const Schema& schema_;
  ResolvedSpec resolved_;
  std::vector<Problem> problems_;
  std::set<std::string> set_in_this_source_;
  std::optional<Origin> remote_environment_;  // where guide 0 says that the environment is elsewhere
};

}  // namespace

Result<ResolvedSpec> resolve(const Schema& schema, const Sources& sources) {
  Resolver resolver(schema);
  if (sources.file) resolver.read_file(*sources.file);
  resolver.read_environment(sources.environment);
  resolver.read_overrides(sources.overrides);
  return resolver.finish();
}

Result<Override> parse_override(std::string_view argument) {
  const auto equals = argument.find('=');
  const std::string_view key = trim(argument.substr(0, equals));
  if (equals == std::string_view::npos || key.empty() || key.starts_with('-'))
    return Error{Error::Kind::bad_input, fmt::format("\"{}\" is not a setting", argument),
                 "write section.key=value, as in training.max_steps=100"};
  return Override{std::string(key), std::string(argument.substr(equals + 1)), std::string(argument)};
}

std::vector<Problem> missing_capabilities(const Schema& schema, const ResolvedSpec& resolved) {
  std::vector<Problem> problems;
  for (const auto& [key, origin] : resolved.origins) {
    const Field& field = *schema.find(key);
    const std::string value = field.write(resolved.spec);
    std::optional<Capability> needed;
    if (value != field.fallback) needed = field.capability;
    if (const auto found = field.capability_of_value.find(value); found != field.capability_of_value.end())
      needed = found->second;
    if (!needed || is_available(*needed)) continue;
    if (const auto other = command_of(*needed))
      problems.push_back({origin.where, fmt::format("{}: {} is for {}", key, value, other->command),
                          fmt::format("use that, whose file is another ({}), or remove the key", other->page)});
    else
      problems.push_back(
          {origin.where,
           fmt::format("{}: {} needs {}, which this version of muster does not have yet", key, value, name(*needed)),
           "remove the key"});
  }
  return problems;
}

std::string print_configuration(const Schema& schema, const ResolvedSpec& resolved) {
  std::string text;
  std::string open;  // section whose lines are being written
  for (const Field& field : schema.fields()) {
    const std::string section = field.key.substr(0, field.key.rfind('.'));
    if (section != open) {
      const auto dot = section.find('.');
      if (dot == std::string::npos)
        text += section + ":\n";
      else if (open.substr(0, open.find('.')) != section.substr(0, dot))
        text += section.substr(0, dot) + ":\n  " + section.substr(dot + 1) + ":\n";
      else
        text += "  " + section.substr(dot + 1) + ":\n";
      open = section;
    }
    const std::string indent(2 * static_cast<std::size_t>(1 + std::ranges::count(section, '.')), ' ');
    const auto origin = resolved.origins.find(field.key);
    const std::string line =
        fmt::format("{}{}: {}", indent, field.key.substr(section.size() + 1), field.write(resolved.spec));
    text += fmt::format("{:<44}  # {}\n", line, origin == resolved.origins.end() ? "built-in" : origin->second.where);
  }
  return text;
}

}  // namespace muster::spec

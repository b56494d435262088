#include "spec/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <type_traits>
#include <utility>

#include "base/text.hpp"
#include "spec/alias.hpp"
#include "spec/capability_command.hpp"
#include "spec/codec.hpp"
#include "spec/readers.hpp"

namespace muster::spec {
namespace {

// The bounds of a number and how they are written.
struct Bounds {
  std::optional<double> at_least, at_most, above, below;

  std::string in_words() const {
    std::string words;
    if (at_least) words += fmt::format(", at least {}", *at_least);
    if (above) words += fmt::format(", above {}", *above);
    if (at_most) words += fmt::format(", at most {}", *at_most);
    if (below) words += fmt::format(", below {}", *below);
    return words;
  }
  bool hold(double value) const {
    return (!at_least || value >= *at_least) && (!at_most || value <= *at_most) && (!above || value > *above) &&
           (!below || value < *below);
  }
};

template <class Value>
std::optional<double> as_number(const Value& value) {
  if constexpr (std::is_same_v<Value, std::int64_t> || std::is_same_v<Value, double>)
    return static_cast<double>(value);
  else if constexpr (std::is_same_v<Value, std::optional<std::int64_t>> || std::is_same_v<Value, std::optional<double>>)
    return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
  else
    return std::nullopt;
}

// What follows a field's line in describe(): .at_least(1).in("tokens").needs(…). The bounds are kept with the reader.
class FieldOptions {
 public:
  FieldOptions(Field& field, std::shared_ptr<Bounds> bounds)
      : field_(field), bounds_(std::move(bounds)), kind_(field.accepted) {}
  FieldOptions& at_least(double value) { return bound(bounds_->at_least, value); }
  FieldOptions& at_most(double value) { return bound(bounds_->at_most, value); }
  FieldOptions& above(double value) { return bound(bounds_->above, value); }
  FieldOptions& below(double value) { return bound(bounds_->below, value); }
  FieldOptions& in(std::string_view unit) {
    field_.unit = unit;
    return *this;
  }
  FieldOptions& needs(Capability capability) {
    field_.capability = capability;
    return *this;
  }
  FieldOptions& value_needs(std::string_view word, Capability capability) {
    field_.capability_of_value.emplace(word, capability);
    return *this;
  }

 private:
  FieldOptions& bound(std::optional<double>& side, double value) {
    side = value;
    field_.accepted = kind_ + bounds_->in_words();
    return *this;
  }

  Field& field_;
  std::shared_ptr<Bounds> bounds_;
  std::string kind_;  // what is accepted, before bounds
};

// Visits one section; Reach leads from the RunSpec to it.
template <class Owner>
class Builder {
 public:
  using Reach = std::function<Owner&(RunSpec&)>;

  Builder(std::string prefix, Reach reach, std::vector<Field>& fields, std::vector<Section>& sections)
      : prefix_(std::move(prefix)), reach_(std::move(reach)), fields_(fields), sections_(sections) {}

  template <class Value>
  FieldOptions operator()(std::string_view key, Value Owner::* member, std::string_view help) {
    const auto bounds = std::make_shared<Bounds>();
    Field field;
    field.key = prefix_ + std::string(key);
    field.help = help;
    field.accepted = accepted(static_cast<const Value*>(nullptr));
    field.is_choice = std::is_enum_v<Value>;
    field.read = [reach = reach_, member, bounds](RunSpec& spec, const Node& node) -> Result<void> {
      auto value = spec::read(node, static_cast<const Value*>(nullptr));
      if (!value) return value.error();
      if (const auto number = as_number(*value); number && !bounds->hold(*number))
        return Error{Error::Kind::bad_input, "is " + spec::write(*value), "accepted:" + bounds->in_words().substr(1)};
      reach(spec).*member = std::move(*value);
      return {};
    };
    field.write = [reach = reach_, member](const RunSpec& spec) {
      return spec::write(reach(const_cast<RunSpec&>(spec)).*member);
    };
    field.fallback = field.write(RunSpec{});
    fields_.push_back(std::move(field));
    return {fields_.back(), bounds};
  }

  template <class Part>
  void section(std::string_view key, Part Owner::* member, std::string_view help) {
    sections_.push_back({prefix_ + std::string(key), std::string(help)});
    Builder<Part> part(
        prefix_ + std::string(key) + ".",
        [reach = reach_, member](RunSpec& spec) -> Part& { return reach(spec).*member; }, fields_, sections_);
    Part::describe(part);
  }

 private:
  std::string prefix_;
  Reach reach_;
  std::vector<Field>& fields_;
  std::vector<Section>& sections_;
};

}  // namespace

Schema::Schema() {
  Builder<RunSpec> root("", [](RunSpec& spec) -> RunSpec& { return spec; }, fields_, sections_);
  RunSpec::describe(root);
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    by_key_.emplace(fields_[i].key, i);
    keys_.push_back(fields_[i].key);
  }
}

const Field* Schema::find(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &fields_[found->second];
}

bool Schema::is_section(std::string_view key) const {
  return std::ranges::any_of(sections_, [&](const Section& section) { return section.key == key; });
}

std::string environment_name(std::string_view key) {
  std::string name = "MUSTER_";
  for (const char c : key)
    name += c == '.' || c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

namespace {

// "train, plan"
std::string short_readers(std::string_view key) {
  std::vector<std::string> words;
  for (const Command command : readers_of(key)) {
    const std::string word = split(name(command), ' ')[1];
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return join(words, ", ");
}

}  // namespace

std::string configuration_page(const Schema& schema) {
  std::string page =
      "# Configuration\n\n"
      "Generated by `muster config --page`; a test keeps it in step with the program.\n\n"
      "A value comes from, in rising order: the built-in default, the file given with `--config`, the environment "
      "variable of\n"
      "the key, the command line (`--num-gpus 2` or `section.key=value`). `--print-config` shows every value and where "
      "it came\n"
      "from. An unknown, misplaced or contradicting key is an error that names the line and the nearest known key.\n"
      "A key marked *later* is known and checked, and refused by name as long as this version lacks what it asks "
      "for.\n\n"
      "The last column names the commands that read a key. Typed for another command, it is refused; from a file or the "
      "environment,\nwhich commands share, it is left to the others, and a note says so. `muster run` passes each "
      "setting to the stages whose\ncommand reads it; it and `muster sweep` have files of their own "
      "(docs/experiments.md, docs/sweep.md).\n";
  for (const Section& section : schema.sections()) {
    page += fmt::format("\n## `{}`\n\n{}{}.\n", section.key,
                        static_cast<char>(std::toupper(static_cast<unsigned char>(section.help.front()))),
                        section.help.substr(1));
    bool first = true;
    for (const Field& field : schema.fields()) {
      if (field.key.substr(0, field.key.rfind('.')) != section.key) continue;
      if (std::exchange(first, false))
        page += "\n| key | default | accepted | meaning | read by |\n| --- | --- | --- | --- | --- |\n";
      const bool later =
          field.capability && !is_available(*field.capability) && !command_of(*field.capability).has_value();
      page += fmt::format("| `{}` | `{}` | {}{} | {}{} | {} |\n", field.key.substr(section.key.size() + 1),
                          field.fallback, field.accepted, field.unit.empty() ? "" : " (" + field.unit + ")", field.help,
                          later ? fmt::format(" *(later: {})*", name(*field.capability)) : "",
                          short_readers(field.key));
    }
  }
  page += "\n## Other spellings\n\nAccepted, and noted once when used.\n\n| spelling | key |\n| --- | --- |\n";
  for (const Alias& alias : aliases()) page += fmt::format("| `{}` | `{}` |\n", alias.spelling, alias.key);
  page += "\n## Keys that change nothing\n\nOf other programs' files; noted when used. Other values than the accepted ones are refused.\n\n"
          "| key | accepted | why |\n| --- | --- | --- |\n";
  for (const NeedlessKey& needless : needless_keys())
    page += fmt::format("| `{}` | {} | {} |\n", needless.key,
                        needless.accepted.empty() ? "anything" : "`" + std::string(needless.accepted.substr(0, needless.accepted.find('|'))) + "`",
                        needless.reason);
  page += "\n## Refused keys\n\n| key | why |\n| --- | --- |\n";
  for (const RefusedKey& refused : refused_keys()) page += fmt::format("| `{}` | {} |\n", refused.key, refused.reason);
  page +=
      "\n## Environment\n\nThe variable of a key is `MUSTER_` and the key in capitals with `_` for every dot: "
      "`distributed.num_gpus` is `MUSTER_DISTRIBUTED_NUM_GPUS`.\nThese have a meaning of their own:\n\n| variable | "
      "meaning |\n| --- | --- |\n";
  for (const ReservedVariable& variable : reserved_variables())
    page += fmt::format("| `{}` | {} |\n", variable.name, variable.meaning);
  return page;
}

}  // namespace muster::spec

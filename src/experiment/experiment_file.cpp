#include "experiment/experiment_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/duration.hpp"
#include "base/node_reader.hpp"
#include "base/text.hpp"
#include "experiment/document_override.hpp"
#include "experiment/settings.hpp"
#include "spec/schema.hpp"

namespace muster::experiment {
namespace {

struct Draft {
  ExperimentSpec spec;
  spec::Schema schema;
  const std::vector<std::string>* overrides = nullptr;
};
template <class Target>
using Key = NodeKey<Target>;

// A stage, data set or other choice that is being read, with what all of them need.
template <class Item>
struct Part {
  Item& item;
  Draft& draft;
};

std::string where(const NodeReader& reader, const Draft& draft, TextPosition position) {
  return location_of(reader.source(), *draft.overrides, position);
}

// Names become parts of job ids and file names.
bool is_name(std::string_view text) {
  const auto plain = [](char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
  };
  return !text.empty() && plain(text.front()) && std::ranges::all_of(text, [&](char letter) {
    return plain(letter) || std::string_view("._+-").find(letter) != std::string_view::npos;
  });
}

void check_name(NodeReader& reader, TextPosition position, const std::string& text) {
  if (!is_name(text))
    reader.refuse(position, fmt::format("\"{}\" cannot be part of a job's name", text),
                  "use letters, digits and . _ + -, a letter or digit first");
}

std::optional<schedule::Duration> read_span(NodeReader& reader, const Node& node) {
  if (node.kind == Node::Kind::scalar)
    if (const auto span = parse_duration(node.text); span && span->count() > 0 && *span <= schedule::longest_span)
      return *span;
  reader.refuse_value(node, "a time, as in 90s, 30m or 2h");
  return std::nullopt;
}

// "2", "0", "1-8", "1-all".
std::optional<schedule::GpuRequest> read_gpu_request(NodeReader& reader, const Node& node) {
  if (node.kind == Node::Kind::scalar) {
    const auto dash = node.text.find('-');
    const std::string last = dash == std::string::npos ? "" : node.text.substr(dash + 1);
    const auto minimum = parse_number<int>(node.text.substr(0, dash));
    const auto maximum = dash == std::string::npos ? minimum
                         : last == "all"           ? std::optional(schedule::most_gpus)
                                                   : parse_number<int>(last);
    if (minimum && maximum && *minimum >= 0 && *maximum >= *minimum && *maximum <= schedule::most_gpus &&
        (*minimum > 0 || *maximum == 0))
      return schedule::GpuRequest{*minimum, *maximum};
  }
  reader.refuse_value(node, "a number of GPUs, as in 1, 0, 1-8 or 1-all");
  return std::nullopt;
}

std::vector<std::string> read_command(NodeReader& reader, const Node& node) {
  std::vector<std::string> words;
  bool is_right = node.kind == Node::Kind::list && !node.items.empty();
  for (const Node& item : node.items) {
    is_right = is_right && item.kind == Node::Kind::scalar;
    words.push_back(item.text);
  }
  if (!is_right || words.front().empty()) reader.refuse_value(node, "a list of words, the program first");
  return words;
}

// A table's own words, and the sections of settings next to them: those are read elsewhere, and listed here for
// typing errors.
template <class Target>
std::vector<Key<Target>> with_sections(std::span<const Key<Target>> own) {
  std::vector<Key<Target>> keys(own.begin(), own.end());
  for (const std::string_view section : setting_sections) keys.push_back({section, nullptr});
  return keys;
}

// A table divided in two: words of its own, and settings.
struct CutTable {
  Node words, settings;
};

CutTable cut(const Node& table) {
  CutTable parts{table, table};
  std::erase_if(parts.words.entries, [](const Node::Entry& entry) { return is_setting_key(entry.key); });
  std::erase_if(parts.settings.entries, [](const Node::Entry& entry) { return !is_setting_key(entry.key); });
  return parts;
}

template <class Item>
void read_with_settings(NodeReader& reader, const Node& node, std::span<const Key<Part<Item>>> own, Item& item,
                        Draft& draft) {
  Part<Item> part{item, draft};
  const CutTable parts = cut(node);
  reader.table<Part<Item>>(parts.words, with_sections(own), part);
  flatten_settings(
      reader, draft.schema, parts.settings, [&](TextPosition position) { return where(reader, draft, position); },
      item.settings);
}

const std::array stage_keys{
    Key<Part<Stage>>{"command",
                     [](NodeReader& r, const Node& v, Part<Stage>& t) { t.item.command = read_command(r, v); }},
    Key<Part<Stage>>{"gpus", [](NodeReader& r, const Node& v, Part<Stage>& t) { t.item.gpus = read_gpu_request(r, v); }},
    Key<Part<Stage>>{"predicted",
                     [](NodeReader& r, const Node& v, Part<Stage>& t) { t.item.predicted = read_span(r, v); }},
    Key<Part<Stage>>{"timeout", [](NodeReader& r, const Node& v, Part<Stage>& t) { t.item.timeout = read_span(r, v); }},
    Key<Part<Stage>>{"heartbeat",
                     [](NodeReader& r, const Node& v, Part<Stage>& t) { t.item.heartbeat = read_span(r, v); }},
    Key<Part<Stage>>{"retries",
                     [](NodeReader& r, const Node& v, Part<Stage>& t) {
                       t.item.retries = r.count(v, 0, schedule::most_retries).value_or(0);
                     }},
};

void read_stage(NodeReader& reader, const Node& node, StageKind kind, Draft& draft) {
  Stage& stage = draft.spec.stage(kind);
  stage = Stage{};
  stage.where = where(reader, draft, node.position);
  if (node.kind == Node::Kind::scalar && node.text == "none")
    stage.wanted = false;
  else if (node.kind == Node::Kind::list)
    stage.command = read_command(reader, node);
  else if (node.kind == Node::Kind::table)
    read_with_settings<Stage>(reader, node, stage_keys, stage, draft);
  else if (node.kind != Node::Kind::scalar || node.text != "muster")
    reader.refuse_value(node, "none, muster, a command as a list of words, or a table");
  if (!stage.command.empty() && !stage.settings.empty())
    reader.refuse(node.position, fmt::format("{} has a command and settings", name(kind)),
                  "settings are for muster's own stages: keep one of the two");
}

const std::array<Key<Part<Choice>>, 0> choice_keys{};

// A number that is short for a setting.
template <std::int64_t least>
void set_number(NodeReader& reader, const Node& node, Settings& settings, std::string_view key, Draft& draft) {
  if (const auto number = reader.integer(node, least, std::numeric_limits<std::int64_t>::max()))
    settings.push_back({std::string(key), std::to_string(*number), where(reader, draft, node.position)});
}

const std::array algorithm_keys{
    Key<Part<Choice>>{"enabled", [](NodeReader& r, const Node& v,
                                    Part<Choice>& t) { t.item.enabled = r.boolean(v).value_or(true); }},
    Key<Part<Choice>>{"batch_size",
                      [](NodeReader& r, const Node& v, Part<Choice>& t) {
                        set_number<1>(r, v, t.item.settings, "training.batch_size", t.draft);
                      }},
    Key<Part<Choice>>{"num_workers",
                      [](NodeReader& r, const Node& v, Part<Choice>& t) {
                        set_number<0>(r, v, t.item.settings, "training.dataloader_num_workers", t.draft);
                      }},
};
const std::array dataset_keys{
    Key<Part<DataSet>>{"prompts", [](NodeReader& r, const Node& v, Part<DataSet>& t) { t.item.prompts = r.text(v); }},
    Key<Part<DataSet>>{"questions",
                       [](NodeReader& r, const Node& v, Part<DataSet>& t) { t.item.questions = r.text(v); }},
    Key<Part<DataSet>>{"exact_match", [](NodeReader& r, const Node& v,
                                         Part<DataSet>& t) { t.item.exact_match = r.boolean(v).value_or(false); }},
    Key<Part<DataSet>>{"keep",
                       [](NodeReader& r, const Node& v, Part<DataSet>& t) {
                         if (v.text == "right")
                           t.item.keep = Keep::right;
                         else if (v.text != "all")
                           r.refuse_value(v, "all or right");
                       }},
};

// A table of choices by name. A single word is short for the one setting that is named.
template <class Item>
void read_choices(NodeReader& reader, const Node& node, std::string_view alone, std::span<const Key<Part<Item>>> own,
                  std::vector<Item>& choices, Draft& draft) {
  if (node.kind != Node::Kind::table || node.entries.empty())
    return reader.refuse_value(node, "a table of names, with what each stands for");
  for (const Node::Entry& entry : node.entries) {
    Item item;
    item.name = entry.key;
    item.where = where(reader, draft, entry.position);
    check_name(reader, entry.position, entry.key);
    if (entry.value.kind == Node::Kind::scalar && !alone.empty())
      item.settings.push_back({std::string(alone), entry.value.text, item.where});
    else if (entry.value.kind == Node::Kind::table)
      read_with_settings<Item>(reader, entry.value, own, item, draft);
    else if (entry.value.kind != Node::Kind::null)
      reader.refuse(entry.position, fmt::format("{} is {}", entry.key, describe(entry.value)),
                    "it must be a table of settings");
    choices.push_back(std::move(item));
  }
}

void read_rounds(NodeReader& reader, const Node& node, Draft& draft) {
  draft.spec.rounds = reader.count(node, 1, 10'000).value_or(1);
}

const std::array experiment_keys{
    Key<Draft>{"name",
               [](NodeReader& r, const Node& v, Draft& t) {
                 t.spec.name = r.text(v).value_or("");
                 if (!t.spec.name.empty()) check_name(r, v.position, t.spec.name);
               }},
    Key<Draft>{"seed",
               [](NodeReader& r, const Node& v, Draft& t) {
                 t.spec.seed = r.integer(v, 0, std::numeric_limits<std::int64_t>::max()).value_or(0);
               }},
    Key<Draft>{"rounds_of_training", read_rounds},
    Key<Draft>{"output",
               [](NodeReader& r, const Node& v, Draft& t) { t.spec.output = r.text(v).value_or(t.spec.output); }},
};

void read_device(NodeReader& reader, const Node& node, Draft& draft) {
  std::vector<std::string> known;
  for (const auto& word : words(spec::Device{})) {
    if (node.kind == Node::Kind::scalar && node.text == word.text) {
      draft.spec.device = word.value;
      return;
    }
    known.emplace_back(word.text);
  }
  reader.refuse_value(node, "one of " + join(known, ", "));
}

void read_parallel(NodeReader& reader, const Node& node, Draft& draft) {
  draft.spec.parallel = reader.boolean(node).value_or(true);
}

void read_algorithms(NodeReader& reader, const Node& node, Draft& draft) {
  if (!draft.spec.algorithms.empty())
    return reader.refuse(node.position, "algorithms is given, and algos", "keep one of the two");
  read_choices<Choice>(reader, node, "", algorithm_keys, draft.spec.algorithms, draft);
  if (std::ranges::none_of(draft.spec.algorithms, &Choice::enabled))
    reader.refuse(node.position, "no algorithm is enabled", "enabled: true for at least one");
  std::erase_if(draft.spec.algorithms, [](const Choice& choice) { return !choice.enabled; });
}

const std::array data_collection_keys{
    Key<Draft>{"samples_per_example",
               [](NodeReader& r, const Node& v, Draft& t) {
                 set_number<1>(r, v, t.spec.settings, "generation.samples", t);
               }},
    Key<Draft>{"reward_batch_size",
               [](NodeReader& r, const Node& v, Draft&) {
                 r.refuse(v.position,
                          "data_collection.reward_batch_size needs reward models, which this version of muster does "
                          "not have yet",
                          "remove the key");
               }},
};

const std::array file_keys{
    Key<Draft>{"experiment", [](NodeReader& r, const Node& v, Draft& t) { r.table<Draft>(v, experiment_keys, t); }},
    Key<Draft>{"rounds_of_training", read_rounds},
    Key<Draft>{"use_parallel_execution", read_parallel},
    Key<Draft>{"output",
               [](NodeReader& r, const Node& v, Draft& t) { t.spec.output = r.text(v).value_or(t.spec.output); }},
    Key<Draft>{"device", read_device},
    Key<Draft>{"priority",
               [](NodeReader& r, const Node& v, Draft& t) {
                 t.spec.priority = r.count(v, schedule::lowest_priority, schedule::highest_priority).value_or(0);
               }},
    Key<Draft>{"algorithms", read_algorithms},
    Key<Draft>{"algos", read_algorithms},
    Key<Draft>{"data_collection",
               [](NodeReader& r, const Node& v, Draft& t) { r.table<Draft>(v, data_collection_keys, t); }},
    Key<Draft>{"families", [](NodeReader& r, const Node& v,
                              Draft& t) { read_choices<Choice>(r, v, "model.path", choice_keys, t.spec.families, t); }},
    Key<Draft>{"datasets",
               [](NodeReader& r, const Node& v, Draft& t) {
                 read_choices<DataSet>(r, v, "data.path", dataset_keys, t.spec.datasets, t);
               }},
    Key<Draft>{"generate", [](NodeReader& r, const Node& v, Draft& t) { read_stage(r, v, StageKind::generate, t); }},
    Key<Draft>{"train", [](NodeReader& r, const Node& v, Draft& t) { read_stage(r, v, StageKind::train, t); }},
    Key<Draft>{"evaluate", [](NodeReader& r, const Node& v, Draft& t) { read_stage(r, v, StageKind::evaluate, t); }},
};

// use_parallel_execution may also be in the section system, which otherwise holds settings.
void take_system_words(NodeReader& reader, Node& root, Draft& draft) {
  for (Node::Entry& entry : root.entries) {
    if (entry.key != "system" || entry.value.kind != Node::Kind::table) continue;
    for (const Node::Entry& word : entry.value.entries)
      if (word.key == "use_parallel_execution") read_parallel(reader, word.value, draft);
    std::erase_if(entry.value.entries, [](const Node::Entry& word) { return word.key == "use_parallel_execution"; });
  }
}

void read_root(NodeReader& reader, Node& root, Draft& draft) {
  if (root.kind != Node::Kind::table) return reader.refuse_value(root, "a table");
  take_system_words(reader, root, draft);
  const CutTable parts = cut(root);
  reader.table<Draft>(parts.words, with_sections<Draft>(file_keys), draft);
  flatten_settings(
      reader, draft.schema, parts.settings, [&](TextPosition position) { return where(reader, draft, position); },
      draft.spec.settings);
  if (draft.spec.name.empty())
    reader.refuse(root.position, "experiment.name is missing", "write experiment.name=NAME, its folder's name");
  const bool has_algorithms = root.find("algorithms") != nullptr || root.find("algos") != nullptr;
  for (const auto& [key, is_missing] : {std::pair{"algorithms", !has_algorithms},
                                        std::pair{"families", root.find("families") == nullptr},
                                        std::pair{"datasets", root.find("datasets") == nullptr}})
    if (is_missing)
      reader.refuse(root.position, fmt::format("{} is missing", key), "a table of names, with what each stands for");
}

}  // namespace

Result<ExperimentSpec> read_experiment(std::string_view text, std::string_view source,
                                       const std::vector<std::string>& overrides) {
  auto root = parse_document(text, source);
  if (!root) return root.error();
  std::vector<Problem> problems;
  apply_overrides(*root, overrides, problems);
  Draft draft;
  draft.overrides = &overrides;
  NodeReader reader(source);
  // Data is only generated if the file says how.
  draft.spec.stage(StageKind::generate).wanted = false;
  read_root(reader, *root, draft);
  // What an argument set is not in the file: the reader wrote line 0.
  for (Problem problem : reader.problems()) {
    for (std::size_t number = 0; number < overrides.size(); ++number)
      if (problem.where == location(source, {0, static_cast<int>(number)})) problem.where = overrides[number];
    problems.push_back(std::move(problem));
  }
  if (problems.empty()) problems = problems_of(draft.spec, draft.schema);
  if (!problems.empty()) return to_error(problems);
  return std::move(draft.spec);
}

}  // namespace muster::experiment

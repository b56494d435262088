#include "spec/model/rope_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "json/json_text.hpp"

namespace muster::spec {
namespace {

using nlohmann::json;

struct KindWord {
  std::string_view word;
  RopeKind kind;
};
// The first word of a kind is the one that is written.
constexpr std::array kind_words{
    KindWord{"default", RopeKind::standard},    KindWord{"linear", RopeKind::linear},
    KindWord{"dynamic", RopeKind::dynamic},     KindWord{"yarn", RopeKind::yarn},
    KindWord{"longrope", RopeKind::longrope},   KindWord{"llama3", RopeKind::llama3},
    KindWord{"proportional", RopeKind::linear},  // the same for heads that are rotated as a whole
};

// One of the two sections.
class RopeSection {
 public:
  RopeSection(ConfigReader& reader, const json& object, std::string key)
      : reader_(reader), object_(object), key_(std::move(key)) {}

  const json* find(const char* name) const {
    const auto entry = object_.find(name);
    return entry == object_.end() || entry->is_null() ? nullptr : &*entry;
  }
  std::optional<double> number(const char* name, double lowest, double highest) {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_number()) {
      const double seen = value->get<double>();
      if (std::isfinite(seen) && seen >= lowest && seen <= highest) return seen;
    }
    note(name, *value, fmt::format("accepted: a number from {} to {}", lowest, highest));
    return std::nullopt;
  }
  void take(const char* name, double& target, double lowest = smallest, double highest = greatest) {
    target = number(name, lowest, highest).value_or(target);
  }
  std::vector<double> list(const char* name, std::size_t size) {
    const json* value = find(name);
    const auto positive = [](const json& entry) { return entry.is_number() && entry.get<double>() > 0; };
    if (value != nullptr && value->is_array() && value->size() == size && std::ranges::all_of(*value, positive))
      return value->get<std::vector<double>>();
    const std::string seen = value == nullptr    ? "is missing"
                             : value->is_array() ? fmt::format("has {} entries", value->size())
                                                 : fmt::format("is {}", shown(*value));
    reader_.note(fmt::format("{}.{}", key_, name), seen, fmt::format("accepted: a list of {} numbers above 0", size));
    return {};
  }
  void require(const char* name) {
    if (find(name) == nullptr) reader_.note(fmt::format("{}.{}", key_, name), "is missing");
  }
  void note(const char* name, const json& value, std::string remedy) {
    reader_.note(fmt::format("{}.{}", key_, name), fmt::format("is {}", shown(value)), std::move(remedy));
  }

  static constexpr double smallest = 1e-9;
  static constexpr double greatest = 1e12;

 private:
  ConfigReader& reader_;
  const json& object_;
  std::string key_;
};

std::optional<RopeKind> read_kind(RopeSection& section) {
  const char* key = section.find("rope_type") != nullptr ? "rope_type" : "type";
  const json* word = section.find(key);
  if (word == nullptr) return RopeKind::standard;
  const auto known = word->is_string()
                         ? std::ranges::find(kind_words, word->get_ref<const std::string&>(), &KindWord::word)
                         : kind_words.end();
  if (known != kind_words.end()) return known->kind;
  std::vector<std::string_view> words;
  for (const KindWord& entry : kind_words) words.push_back(entry.word);
  section.note("rope_type", *word, fmt::format("known: {}", fmt::join(words, ", ")));
  return std::nullopt;
}

void check_part(ConfigReader& reader, const json* part, std::string_view key) {
  if (part != nullptr && !part->is_null() && *part != 1.0)
    reader.note(key, fmt::format("is {}", shown(*part)), "heads that rotate in part are not known; accepted: 1");
}

// transformers: a number next to the section overrides one inside it, and the model's positions stand for neither.
std::int64_t read_original_positions(ConfigReader& reader, RopeSection& section, const ModelConfig& config) {
  if (reader.find({"original_max_position_embeddings"}) != nullptr)
    return reader.whole({"original_max_position_embeddings"}, config.positions, largest::positions).value_or(0);
  const json* inside = section.find("original_max_position_embeddings");
  if (inside == nullptr) return config.positions;
  return static_cast<std::int64_t>(
      section.number("original_max_position_embeddings", 1, static_cast<double>(largest::positions)).value_or(1));
}

void read_section(ConfigReader& reader, RopeSection& section, ModelConfig& config) {
  Rope& rope = config.rope;
  const auto kind = read_kind(section);
  if (!kind) return;
  rope.kind = *kind;
  section.take("rope_theta", rope.theta);
  check_part(reader, section.find("partial_rotary_factor"), "partial_rotary_factor");
  if (rope.kind == RopeKind::standard) return;
  const bool ratio_stands_for_factor = rope.kind == RopeKind::yarn || rope.kind == RopeKind::longrope;
  rope.original_positions = read_original_positions(reader, section, config);
  if (section.find("factor") == nullptr && ratio_stands_for_factor)
    rope.factor =
        static_cast<double>(config.positions) / static_cast<double>(std::max<std::int64_t>(1, rope.original_positions));
  else if (rope.kind != RopeKind::linear)
    section.require("factor");
  section.take("factor", rope.factor);
  rope.attention_factor = section.number("attention_factor", RopeSection::smallest, RopeSection::greatest);
  section.take("beta_fast", rope.beta_fast);
  section.take("beta_slow", rope.beta_slow);
  rope.mscale = section.number("mscale", 0, RopeSection::greatest);
  rope.mscale_all_dim = section.number("mscale_all_dim", 0, RopeSection::greatest);
  if (const json* truncate = section.find("truncate")) {
    if (truncate->is_boolean())
      rope.truncate = truncate->get<bool>();
    else
      section.note("truncate", *truncate, "accepted: true or false");
  }
  if (rope.kind == RopeKind::llama3) {
    section.require("low_freq_factor");
    section.require("high_freq_factor");
    section.take("low_freq_factor", rope.low_frequency_factor);
    section.take("high_freq_factor", rope.high_frequency_factor);
  }
  if (rope.kind == RopeKind::longrope) {
    const auto pairs = static_cast<std::size_t>(std::max<std::int64_t>(0, config.head_size / 2));
    rope.short_factors = section.list("short_factor", pairs);
    rope.long_factors = section.list("long_factor", pairs);
  }
}

}  // namespace

std::string_view name(RopeKind kind) { return std::ranges::find(kind_words, kind, &KindWord::kind)->word; }

void read_rope(ConfigReader& reader, ModelConfig& config) {
  const json* theta = reader.find({"rope_theta"});
  if (theta != nullptr && !theta->is_null()) {
    if (theta->is_number() && theta->get<double>() > 0)
      config.rope.theta = theta->get<double>();
    else
      reader.note("rope_theta", fmt::format("is {}", shown(*theta)), "accepted: a number above 0");
  }
  check_part(reader, reader.find({"partial_rotary_factor"}), "partial_rotary_factor");
  // If both spellings are present, transformers takes the old one.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* section = reader.find({key});
    if (section == nullptr || section->is_null()) continue;
    if (!section->is_object()) {
      reader.note(key, fmt::format("is {}", shown(*section)), "accepted: an object with a rope_type");
      continue;
    }
    if (section->empty()) continue;
    RopeSection named(reader, *section, key);
    read_section(reader, named, config);
    break;
  }
}

}  // namespace muster::spec

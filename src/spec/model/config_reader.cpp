#include "spec/model/config_reader.hpp"

#include <fmt/format.h>

#include "json/json_text.hpp"

namespace muster::spec {

using nlohmann::json;

void ConfigReader::note(std::string_view key, std::string what, std::string remedy) {
  problems_.push_back({fmt::format("{}: {}", source_, key), std::move(what), std::move(remedy)});
}

const json* ConfigReader::find(Keys keys) {
  const json* found = nullptr;
  const char* found_key = nullptr;
  for (const char* key : keys) {
    const auto entry = object_.find(key);
    if (entry == object_.end()) continue;
    if (found != nullptr && *entry != *found)
      note(key, fmt::format("is {}, but {}, which means the same, is {}", shown(*entry), found_key, shown(*found)),
           "remove one of them");
    if (found != nullptr) continue;
    found = &*entry;
    found_key = key;
  }
  return found;
}

bool ConfigReader::is_null(const char* key) const {
  const auto entry = object_.find(key);
  return entry != object_.end() && entry->is_null();
}

std::optional<std::int64_t> ConfigReader::whole(Keys keys, std::int64_t fallback, std::int64_t highest,
                                                std::int64_t lowest) {
  const json* value = find(keys);
  if (value == nullptr) return fallback;
  const char* key = *keys.begin();
  for (const char* spelling : keys)
    if (object_.contains(spelling)) {
      key = spelling;
      break;
    }
  const auto fits = [&] {
    if (value->is_number_unsigned()) {
      const auto number = value->get<std::uint64_t>();
      return number <= static_cast<std::uint64_t>(highest) && static_cast<std::int64_t>(number) >= lowest;
    }
    return value->is_number_integer() && value->get<std::int64_t>() >= lowest && value->get<std::int64_t>() <= highest;
  };
  if (fits()) return value->get<std::int64_t>();
  note(key, fmt::format("is {}", shown(*value)),
       fmt::format("accepted: a whole number from {} to {}", lowest, highest));
  return std::nullopt;
}

bool ConfigReader::flag(const char* key, bool fallback) {
  const json* value = find({key});
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  note(key, fmt::format("is {}", shown(*value)), "accepted: true or false");
  return fallback;
}

double ConfigReader::positive(const char* key, double fallback) {
  const json* value = find({key});
  if (value == nullptr) return fallback;
  if (value->is_number() && value->get<double>() > 0 && value->get<double>() < 1e300) return value->get<double>();
  note(key, fmt::format("is {}", shown(*value)), "accepted: a number above 0");
  return fallback;
}

double ConfigReader::probability(const char* key, double fallback) {
  const json* value = find({key});
  if (value == nullptr) return fallback;
  if (value->is_number() && value->get<double>() >= 0 && value->get<double>() <= 1) return value->get<double>();
  note(key, fmt::format("is {}", shown(*value)), "accepted: a number from 0 to 1");
  return fallback;
}

std::string ConfigReader::text(const char* key, std::string_view fallback) {
  const json* value = find({key});
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  note(key, fmt::format("is {}", shown(*value)), "accepted: a text");
  return std::string(fallback);
}

}  // namespace muster::spec

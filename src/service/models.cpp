#include "service/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/table.hpp"
#include "base/text.hpp"
#include "service/known_models.hpp"
#include "spec/model/huggingface_cache.hpp"
#include "spec/model/model_source.hpp"

namespace muster::service {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
constexpr std::string_view hub_prefix = "models--";

std::vector<std::string> folder_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// Links are followed: the hub cache keeps files elsewhere.
ByteCount bytes_of(const fs::path& path) {
  std::error_code failure;
  if (fs::is_regular_file(path, failure)) return {static_cast<std::int64_t>(fs::file_size(path, failure))};
  ByteCount bytes;
  for (fs::recursive_directory_iterator entry(path, failure), end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const std::uintmax_t size = entry->file_size(ignored);
    if (!ignored) bytes.value += static_cast<std::int64_t>(size);
  }
  return bytes;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

ModelAtHand describe(std::string name, ModelPlace place, const Result<fs::path>& found) {
  ModelAtHand model{std::move(name), place, {}, {}, {}, {}, {}};
  if (!found) {
    model.problem = first_line(found.error().what);
    return model;
  }
  model.path = *found;
  model.bytes = bytes_of(*found);
  const auto description = spec::read_model(found->string(), {}, std::nullopt);
  if (!description) {
    model.problem = first_line(description.error().what);
    return model;
  }
  model.family = spec::name(description->config.family);
  model.parameters = description->shape.parameter_count();
  return model;
}

// "models--Qwen--Qwen2-0.5B" → "Qwen/Qwen2-0.5B".
std::string hub_name(std::string_view folder) {
  std::string name(folder.substr(hub_prefix.size()));
  if (const std::size_t cut = name.find("--"); cut != std::string::npos) name.replace(cut, 2, "/");
  return name;
}

std::string counted(std::int64_t parameters) {
  const double number = static_cast<double>(parameters);
  if (number >= 1e9) return fmt::format("{:.2f}B", number / 1e9);
  if (number >= 1e6) return fmt::format("{:.0f}M", number / 1e6);
  return fmt::format("{}", parameters);
}

bool is_stored(const std::vector<ModelAtHand>& models, std::string_view name) {
  return std::ranges::any_of(
      models, [&](const ModelAtHand& model) { return model.place == ModelPlace::store && model.name == name; });
}

}  // namespace

std::string_view name(ModelPlace place) { return place == ModelPlace::store ? "store" : "hub cache"; }

std::vector<ModelAtHand> models_at_hand(const spec::ModelSearch& search) {
  std::vector<ModelAtHand> models;
  for (const std::string& folder : folder_names(search.store))
    if (!folder.starts_with('.'))
      models.push_back(describe(folder, ModelPlace::store, spec::find_in_store(folder, search.store)));
  for (const std::string& folder : folder_names(search.hub_cache)) {
    if (!folder.starts_with(hub_prefix) || !spec::is_hub_name(hub_name(folder))) continue;
    const std::string name = hub_name(folder);
    models.push_back(describe(name, ModelPlace::hub_cache, spec::find_in_hub_cache(name, search.hub_cache)));
  }
  return models;
}

std::string models_text(const std::vector<ModelAtHand>& models, const spec::ModelSearch& search, bool colour) {
  std::string text;
  if (models.empty()) {
    text = fmt::format("no models in {} and {}\n", search.store.string(), search.hub_cache.string());
  } else {
    std::vector<std::vector<Cell>> rows{{{"name", Colour::dim},
                                         {"family", Colour::dim},
                                         {"parameters", Colour::dim, true},
                                         {"size", Colour::dim, true},
                                         {"place", Colour::dim}}};
    for (const ModelAtHand& model : models) {
      const std::string where = model.path.empty() ? std::string(name(model.place)) : model.path.string();
      rows.push_back({{model.name, Colour::bold},
                      {model.family.value_or("-")},
                      {model.parameters ? counted(*model.parameters) : "-", Colour::plain, true},
                      {to_string(model.bytes), Colour::plain, true},
                      model.problem ? Cell{"cannot be used: " + *model.problem, Colour::yellow} : Cell{where}});
    }
    text = format_table(rows, colour);
  }
  for (const KnownModel& model : known_models())
    if (!is_stored(models, model.name))
      text += fmt::format("muster model get {} fetches {} ({}, {})\n", model.name, model.title, to_string(model.bytes),
                          model.licence);
  return text;
}

std::string models_json(const std::vector<ModelAtHand>& models) {
  const auto or_null = [](const auto& value) { return value ? ordered_json(*value) : ordered_json(nullptr); };
  ordered_json list = ordered_json::array(), available = ordered_json::array();
  for (const ModelAtHand& model : models)
    list.push_back({{"name", model.name},
                    {"place", name(model.place)},
                    {"path", model.path.empty() ? ordered_json(nullptr) : ordered_json(model.path.string())},
                    {"bytes", model.bytes.value},
                    {"family", or_null(model.family)},
                    {"parameters", or_null(model.parameters)},
                    {"problem", or_null(model.problem)}});
  for (const KnownModel& model : known_models())
    available.push_back({{"name", model.name},
                         {"title", model.title},
                         {"bytes", model.bytes.value},
                         {"licence", model.licence},
                         {"fetched", is_stored(models, model.name)}});
  return ordered_json{{"models", list}, {"available", available}}.dump(2, ' ', false,
                                                                       ordered_json::error_handler_t::replace);
}

}  // namespace muster::service

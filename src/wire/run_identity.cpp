#include "wire/run_identity.hpp"

#include <concepts>
#include <type_traits>

#include "json/fields.hpp"
#include "wire/field_marks.hpp"

namespace muster::wire {
namespace {

// Note [Fields that once were in the text]
// The text was once the whole task, with fields that do not count set to these values. They are still there, so that
// runs of earlier versions can be resumed. Nothing is ever added: a new field without the mark is left out.
constexpr const char* once_there = R"({
  "run_folder": "", "attempt": "", "model": "", "recompute": "none",
  "sharding": {"kind": "no_shard", "group": 1, "offload": false},
  "data": "", "steps": 0, "micro_batch": 1, "loader_threads": 0, "pinned": false,
  "evaluation": {"data": null, "questions": null, "every": null, "samples": 3},
  "save_every": null, "keep": null, "saving_ranks": 1, "resume": null, "identity": "", "clear_cache_every": 0
})";

template <class... Marks, class Field>
bool is_unusual(const Field& field) {
  const auto unusual = [&]<class Mark>(std::type_identity<Mark>) {
    if constexpr (IdentityUnlessMark<Mark>)
      return field != Mark::value;
    else
      return false;
  };
  return (unusual(std::type_identity<Marks>()) || ...);
}

template <class T>
Json counted_fields(const T& described, const Json& once) {
  Json object = Json::object();
  T::describe(described, [&]<class Field, class... Marks>(const char* name, const Field& field, const Marks&...) {
    const auto before = once.find(name);
    if constexpr (Described<Field>) {
      Json inner = counted_fields(field, before == once.end() ? Json::object() : *before);
      if (!inner.empty()) object[name] = std::move(inner);
    } else if constexpr (is_identity<Marks...>) {
      object[name] = to_json(field);
    } else if constexpr ((std::same_as<Marks, IdentityIfThere> || ...)) {
      if (field) object[name] = to_json(*field);
    } else if constexpr ((IdentityUnlessMark<Marks> || ...)) {
      if (is_unusual<Marks...>(field)) object[name] = to_json(field);
    } else if (before != once.end()) {
      object[name] = *before;
    }
  });
  return object;
}

}  // namespace

std::string identity_text(const TrainTask& task) { return as_line(counted_fields(task, Json::parse(once_there))); }

}  // namespace muster::wire

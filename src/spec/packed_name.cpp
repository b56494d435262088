#include "spec/packed_name.hpp"

#include <fmt/format.h>

#include <string_view>

namespace muster::spec {

Result<void> take_packed_name(ModelSpec& model, const ModelSearch& search) {
  constexpr std::string_view four = "-4bit", eight = "-8bit";
  if (!model.path || !(model.path->ends_with(four) || model.path->ends_with(eight))) return {};
  const std::string whole = *model.path, name = whole.substr(0, whole.size() - four.size());
  if (find_model(whole, search) || !find_model(name, search)) return {};
  const bool in_four = whole.ends_with(four);
  if (in_four ? model.load_in_8bit : model.load_in_4bit)
    return bad_input(fmt::format("{} asks for {} bits, and model.load_in_{}bit is true", whole, in_four ? 4 : 8, in_four ? 8 : 4),
                     fmt::format("-m {}, or leave the setting out", name));
  (in_four ? model.load_in_4bit : model.load_in_8bit) = true;
  model.path = name;
  return {};
}

}  // namespace muster::spec

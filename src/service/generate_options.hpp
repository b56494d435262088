// The options of `muster generate` that are short for settings, each named once.
#pragma once

#include <span>
#include <string_view>

namespace muster::service {

struct GenerateSetting {
  std::string_view option;
  std::string_view key;
};
std::span<const GenerateSetting> generate_settings();

}  // namespace muster::service

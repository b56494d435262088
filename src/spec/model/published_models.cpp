#include "spec/model/published_models.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace muster::spec {
namespace {

// If several are published in one size, the one most people post-train. docs/models.md has the same
// published_model_table.
constexpr std::array published_model_table{
    PublishedModel{"SmolLM2 135M", 134'515'008, 576, 1536, 64, 3, 49152, 8192, true},
    PublishedModel{"SmolLM2 360M", 361'821'120, 960, 2560, 64, 5, 49152, 8192, true},
    PublishedModel{"Qwen2.5 0.5B", 494'032'768, 896, 4864, 64, 2, 151936, 32768, true},
    PublishedModel{"Llama 3.2 1B", 1'235'814'400, 2048, 8192, 64, 8, 128256, 131072, true},
    PublishedModel{"Qwen2.5 1.5B", 1'543'714'304, 1536, 8960, 128, 2, 151936, 131072, true},
    PublishedModel{"Llama 3.2 3B", 3'212'749'824, 3072, 8192, 128, 8, 128256, 131072, true},
    PublishedModel{"Qwen2.5 7B", 7'615'616'512, 3584, 18944, 128, 4, 152064, 131072, false},
    PublishedModel{"Llama 3.1 8B", 8'030'261'248, 4096, 14336, 128, 8, 128256, 131072, false},
    PublishedModel{"Llama 2 13B", 13'015'864'320, 5120, 13824, 128, 40, 32000, 4096, false},
    PublishedModel{"Qwen2.5 14B", 14'770'033'664, 5120, 13824, 128, 8, 152064, 131072, false},
    PublishedModel{"Qwen2.5 32B", 32'763'876'352, 5120, 27648, 128, 8, 152064, 131072, false},
    PublishedModel{"Llama 3.1 70B", 70'553'706'496, 8192, 28672, 128, 8, 128256, 131072, false},
    PublishedModel{"Llama 3.1 405B", 405'853'388'800, 16384, 53248, 128, 8, 128256, 131072, false},
};

}  // namespace

std::span<const PublishedModel> published_models() { return published_model_table; }

const PublishedModel& nearest_published(std::int64_t parameters) {
  return *std::ranges::min_element(published_model_table, {}, [parameters](const PublishedModel& model) {
    return std::abs(std::log(static_cast<double>(parameters) / static_cast<double>(model.parameters)));
  });
}

}  // namespace muster::spec

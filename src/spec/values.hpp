// The kinds of values a setting can hold beyond numbers and text. Strings stop at the boundary: inside they are enums.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/byte_count.hpp"

namespace muster::spec {

enum class Device { automatic, cuda, cpu };
enum class Strategy { automatic, single, ddp, fsdp, tensor, pipeline, deepspeed };
enum class Backend { automatic, nccl, gloo, mpi };
enum class ShardingStrategy { full_shard, shard_grad_op, no_shard, hybrid_shard };
enum class DataType { automatic, float32, bfloat16, float16 };
enum class WeightSource { checkpoint, random };
enum class FourBitCode { nf4, fp4 };
enum class Attention { eager, sdpa, flash_attention_2 };
enum class Algorithm { sft, dpo, simpo, orpo, kto, reward, grpo, rloo, ppo, pita, qsharp };
enum class OptimizerKind { adamw, adamw_fused, adamw_8bit, sgd, sgd_momentum };
enum class MixedPrecision { automatic, off, bfloat16, float16 };
enum class RateSchedule { constant, linear, cosine, warmup_stable_decay };
enum class Recomputation { none, selective, full };
enum class FinalSave { all, model, nothing };

// How a model's modules are laid over devices: by a named rule, or module by module.
enum class MapRule { automatic, balanced, balanced_low_0, sequential, cuda, cpu };
using DeviceMap = std::variant<MapRule, std::map<std::string, std::string>>;

// Most memory per device: "0", "1", …, "cpu", "disk".
using DeviceLimits = std::map<std::string, ByteCount>;

// Texts that are taken verbatim: nothing is split at commas, and blanks are not trimmed in a file.
struct ExactTexts {
  std::vector<std::string> texts;
  bool operator==(const ExactTexts&) const = default;
};

// Over how many devices something is spread; 1 is not at all. `false` is written for 1 in one of the guides.
struct ParallelDegree {
  std::int64_t value = 1;
  bool operator==(const ParallelDegree&) const = default;
};

// The words of an enum as users write them, the first spelling of a value being the one that is printed.
template <class Enum>
struct Word {
  std::string_view text;
  Enum value;
};

std::vector<Word<Device>> words(Device);
std::vector<Word<Strategy>> words(Strategy);
std::vector<Word<Backend>> words(Backend);
std::vector<Word<ShardingStrategy>> words(ShardingStrategy);
std::vector<Word<DataType>> words(DataType);
std::vector<Word<WeightSource>> words(WeightSource);
std::vector<Word<FourBitCode>> words(FourBitCode);
std::vector<Word<Attention>> words(Attention);
std::vector<Word<Algorithm>> words(Algorithm);
std::vector<Word<OptimizerKind>> words(OptimizerKind);
std::vector<Word<MixedPrecision>> words(MixedPrecision);
std::vector<Word<RateSchedule>> words(RateSchedule);
std::vector<Word<Recomputation>> words(Recomputation);
std::vector<Word<FinalSave>> words(FinalSave);
std::vector<Word<MapRule>> words(MapRule);

}  // namespace muster::spec

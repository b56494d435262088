#include "spec/values.hpp"

namespace muster::spec {

std::vector<Word<Device>> words(Device) {
  return {{"auto", Device::automatic}, {"cuda", Device::cuda}, {"cpu", Device::cpu}};
}

std::vector<Word<Strategy>> words(Strategy) {
  return {{"auto", Strategy::automatic},     {"single", Strategy::single}, {"ddp", Strategy::ddp},
          {"fsdp", Strategy::fsdp},          {"tensor", Strategy::tensor}, {"pipeline", Strategy::pipeline},
          {"deepspeed", Strategy::deepspeed}};
}

std::vector<Word<Backend>> words(Backend) {
  return {{"auto", Backend::automatic}, {"nccl", Backend::nccl}, {"gloo", Backend::gloo}, {"mpi", Backend::mpi}};
}

std::vector<Word<ShardingStrategy>> words(ShardingStrategy) {
  return {{"full_shard", ShardingStrategy::full_shard},
          {"shard_grad_op", ShardingStrategy::shard_grad_op},
          {"no_shard", ShardingStrategy::no_shard},
          {"hybrid_shard", ShardingStrategy::hybrid_shard}};
}

std::vector<Word<DataType>> words(DataType) {
  return {{"auto", DataType::automatic},  {"float32", DataType::float32}, {"bfloat16", DataType::bfloat16},
          {"float16", DataType::float16}, {"fp32", DataType::float32},    {"bf16", DataType::bfloat16},
          {"fp16", DataType::float16},    {"None", DataType::automatic}};
}

std::vector<Word<WeightSource>> words(WeightSource) {
  return {{"checkpoint", WeightSource::checkpoint}, {"random", WeightSource::random}};
}

std::vector<Word<FourBitCode>> words(FourBitCode) { return {{"nf4", FourBitCode::nf4}, {"fp4", FourBitCode::fp4}}; }

std::vector<Word<Attention>> words(Attention) {
  return {{"eager", Attention::eager}, {"sdpa", Attention::sdpa}, {"flash_attention_2", Attention::flash_attention_2}};
}

std::vector<Word<Algorithm>> words(Algorithm) {
  return {{"sft", Algorithm::sft},   {"dpo", Algorithm::dpo},   {"simpo", Algorithm::simpo},
          {"orpo", Algorithm::orpo}, {"kto", Algorithm::kto},   {"reward", Algorithm::reward},
          {"grpo", Algorithm::grpo}, {"rloo", Algorithm::rloo},
          {"ppo", Algorithm::ppo},   {"pita", Algorithm::pita}, {"qsharp", Algorithm::qsharp}};
}

std::vector<Word<OptimizerKind>> words(OptimizerKind) {
  return {{"adamw", OptimizerKind::adamw},
          {"adamw_fused", OptimizerKind::adamw_fused},
          {"adamw_8bit", OptimizerKind::adamw_8bit},
          {"sgd", OptimizerKind::sgd},
          {"sgd_momentum", OptimizerKind::sgd_momentum}};
}

std::vector<Word<MixedPrecision>> words(MixedPrecision) {
  return {{"auto", MixedPrecision::automatic},    {"no", MixedPrecision::off},
          {"bf16", MixedPrecision::bfloat16},     {"fp16", MixedPrecision::float16},
          {"bfloat16", MixedPrecision::bfloat16}, {"float16", MixedPrecision::float16}};
}

std::vector<Word<RateSchedule>> words(RateSchedule) {
  return {{"constant", RateSchedule::constant},
          {"linear", RateSchedule::linear},
          {"cosine", RateSchedule::cosine},
          {"wsd", RateSchedule::warmup_stable_decay},
          {"warmup_stable_decay", RateSchedule::warmup_stable_decay}};
}

// The guides write a boolean.
std::vector<Word<Recomputation>> words(Recomputation) {
  return {{"none", Recomputation::none},  {"selective", Recomputation::selective}, {"full", Recomputation::full},
          {"false", Recomputation::none}, {"False", Recomputation::none},          {"true", Recomputation::full},
          {"True", Recomputation::full}};
}

std::vector<Word<FinalSave>> words(FinalSave) {
  return {{"all", FinalSave::all}, {"model", FinalSave::model}, {"nothing", FinalSave::nothing}};
}

std::vector<Word<MapRule>> words(MapRule) {
  return {
      {"auto", MapRule::automatic},        {"balanced", MapRule::balanced}, {"balanced_low_0", MapRule::balanced_low_0},
      {"sequential", MapRule::sequential}, {"cuda", MapRule::cuda},         {"cpu", MapRule::cpu}};
}

}  // namespace muster::spec

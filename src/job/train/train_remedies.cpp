#include "job/train/train_remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace muster::job {
namespace {

struct TrainTranslation {
  std::string_view of_plan;
  std::string_view here;     // the prefix of the value
  bool takes_value = true;   // false: the option is complete
  bool is_variable = false;  // of the environment: goes before the command
};

constexpr std::array train_translations{
    TrainTranslation{"--batch", "training.batch_size="},
    TrainTranslation{"--micro-batch", "training.micro_batch_size="},
    TrainTranslation{"--accumulation", "training.gradient_accumulation_steps="},
    TrainTranslation{"--seq-len", "training.sequence_length="},
    TrainTranslation{"--checkpointing", "training.gradient_checkpointing=full", false},
    TrainTranslation{"--mixed-precision", "training.mixed_precision="},
    TrainTranslation{"--attention", "system.attn_impl="},
    TrainTranslation{"--strategy", "--strategy "},
    TrainTranslation{"--sharding", "distributed.fsdp_sharding_strategy="},
    TrainTranslation{"--offload", "distributed.fsdp_cpu_offload=true", false},
    TrainTranslation{"--nodes", "--nnodes "},
    TrainTranslation{"--num-gpus", "--num-gpus "},
    TrainTranslation{"--gpu-ids", "--gpu-ids "},
    TrainTranslation{"--allocator", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", false, true},
};

const TrainTranslation* find_translation(std::string_view option) {
  const auto found = std::ranges::find(train_translations, option, &TrainTranslation::of_plan);
  return found == train_translations.end() ? nullptr : &*found;
}

bool is_setting(std::string_view option) { return option.find('=') != std::string_view::npos; }

}  // namespace

bool is_said_by_training(const plan::Remedy& remedy) {
  return std::ranges::all_of(remedy.options, [](const plan::OptionChange& change) {
    return is_setting(change.option) || find_translation(change.option) != nullptr;
  });
}

std::string training_command(const std::vector<plan::OptionChange>& changes) {
  std::string before, after;
  for (const plan::OptionChange& change : changes) {
    const TrainTranslation* translation = find_translation(change.option);
    if (translation == nullptr)
      after += " " + change.option;
    else if (translation->is_variable)
      before += fmt::format("{} ", translation->here);
    else
      after += fmt::format(" {}{}", translation->here, translation->takes_value ? change.value : "");
  }
  return fmt::format("{}muster train …{}", before, after);
}

Error in_words_of_training(Error refusal) {
  for (const TrainTranslation& translation : train_translations)
    if (const std::string option = fmt::format("{} ", translation.of_plan); refusal.remedy.starts_with(option))
      refusal.remedy.replace(0, option.size(), translation.here);
  return refusal;
}

}  // namespace muster::job

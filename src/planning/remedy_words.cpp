#include "planning/remedy_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"

namespace muster::planning {
namespace {

constexpr std::string_view as_setting = "=";  // key=value
constexpr std::string_view unsaid = "…";       // another option of the same remedy says it
constexpr std::string_view expanding = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";

// How each command is told of a change. An option is followed by the value; one that ends in = is another setting's
// beginning. Empty: the command has nothing for it.
struct Spelling {
  std::string_view key;
  std::string_view value;  // the row is about this one alone; empty: about every value
  std::string_view plan;
  std::string_view train;
  std::string_view generate;
  std::string_view evaluate;
  bool is_flag = false;        // of muster plan: without the value
  std::string_view said = {};  // to muster plan in the place of the value
};

constexpr std::array spellings{
    Spelling{"model.load_in_8bit", "true", "--dtype", as_setting, as_setting, as_setting, false, "int8"},
    Spelling{"model.load_in_4bit", "true", "--dtype", as_setting, as_setting, as_setting, false, "int4"},
    Spelling{"model.load_in_8bit", "false", unsaid, as_setting, as_setting, as_setting},
    Spelling{"model.load_in_4bit", "false", unsaid, as_setting, as_setting, as_setting},
    Spelling{"model.dtype", "", "--dtype", "", "--dtype", "--dtype"},
    Spelling{"model.use_lora", "true", unsaid, as_setting, "", ""},
    Spelling{"model.lora_r", "", "--lora", as_setting, "", ""},
    Spelling{"model.device_map", "", "--device-map", "", "--device-map", ""},
    Spelling{"model.max_memory", "", "--max-memory", "", "--max-memory", as_setting},
    Spelling{"model.max_memory.cpu", "", "--cpu-memory", "", "", ""},
    Spelling{"model.max_memory.disk", "", "--disk-memory", "", "", ""},
    Spelling{"training.batch_size", "", "--batch", as_setting, "", ""},
    Spelling{"training.micro_batch_size", "", "--micro-batch", as_setting, "", ""},
    Spelling{"training.gradient_accumulation_steps", "", "--accumulation", as_setting, "", ""},
    Spelling{"training.sequence_length", "", "--seq-len", as_setting, "", ""},
    Spelling{"training.gradient_checkpointing", "full", "--checkpointing", as_setting, "", "", true},
    Spelling{"training.gradient_checkpointing", "", as_setting, as_setting, "", ""},
    Spelling{"training.mixed_precision", "", "--mixed-precision", as_setting, "", ""},
    Spelling{"training.optimizer", "", "--optimizer", as_setting, "", ""},
    Spelling{"generation.batch_size", "", "--batch", as_setting, "--batch-size", ""},
    Spelling{"generation.sequence_length", "", "--seq-len", "", as_setting, "training.sequence_length="},
    Spelling{"system.attn_impl", "", "--attention", as_setting, as_setting, as_setting},
    Spelling{"distributed.strategy", "", "--strategy", "--strategy", "", ""},
    Spelling{"distributed.fsdp_sharding_strategy", "", "--sharding", as_setting, "", ""},
    Spelling{"distributed.fsdp_cpu_offload", "true", "--offload", as_setting, "", "", true},
    Spelling{"distributed.num_nodes", "", "--nodes", "--nnodes", "", ""},
    Spelling{"distributed.num_gpus", "", "--num-gpus", "--num-gpus", "", ""},
    Spelling{"distributed.gpu_ids", "", "--gpu-ids", "--gpu-ids", "", ""},
    Spelling{"allocator", "", "--allocator", expanding, "", ""},
    Spelling{"planner", "", "--planner", "", "", ""},
};

bool is_plan(spec::Command command) {
  return command == spec::Command::plan_training || command == spec::Command::plan_inference;
}

std::string_view spelling_of(spec::Command command, const Spelling& spelling) {
  switch (command) {
    case spec::Command::plan_training:
    case spec::Command::plan_inference:
      return spelling.plan;
    case spec::Command::train:
      return spelling.train;
    case spec::Command::generate:
    case spec::Command::collect:
      return spelling.generate;
    case spec::Command::evaluate:
      return spelling.evaluate;
    case spec::Command::serve_environments:
    case spec::Command::run:
    case spec::Command::sweep:
      break;
  }
  return "";
}

std::optional<RemedyWords> words_of(spec::Command command, const plan::SettingChange& change) {
  const auto row = std::ranges::find_if(spellings, [&](const Spelling& spelling) {
    return spelling.key == change.key && (spelling.value.empty() || spelling.value == change.value);
  });
  if (row == spellings.end()) return std::nullopt;
  // In a plan of training, --batch is another setting.
  const bool of_answers = command == spec::Command::plan_training && change.key == "generation.batch_size";
  const std::string_view here = of_answers ? as_setting : spelling_of(command, *row);
  if (here.empty()) return std::nullopt;
  if (here == expanding) return RemedyWords{std::string(here), "", true};
  if (here == as_setting) return RemedyWords{change.key + "=" + change.value};
  if (here.ends_with('=')) return RemedyWords{std::string(here) + change.value};
  if (is_plan(command) && row->is_flag) return RemedyWords{std::string(here)};
  return RemedyWords{std::string(here), is_plan(command) && !row->said.empty() ? std::string(row->said) : change.value};
}

std::string text_of(const RemedyWords& words) {
  return words.value.empty() ? words.option : words.option + " " + words.value;
}

}  // namespace

std::optional<std::vector<RemedyWords>> remedy_words(spec::Command command,
                                                     const std::vector<plan::SettingChange>& changes) {
  std::vector<RemedyWords> all;
  for (const plan::SettingChange& change : changes) {
    auto words = words_of(command, change);
    if (!words) return std::nullopt;
    if (words->option == unsaid) continue;
    std::erase_if(all, [&](const RemedyWords& earlier) { return earlier.option == words->option; });
    all.push_back(std::move(*words));
  }
  return all;
}

std::string remedy_command(spec::Command command, const std::vector<plan::SettingChange>& changes) {
  std::string before, after;
  for (const RemedyWords& words : remedy_words(command, changes).value_or(std::vector<RemedyWords>()))
    if (words.is_variable)
      before += text_of(words) + " ";
    else
      after += " " + text_of(words);
  return fmt::format("{}{} …{}", before, name(command), after);
}

std::optional<std::string> remedy_options(spec::Command command, const plan::Remedy& remedy) {
  const auto all = remedy_words(command, remedy.settings);
  if (!all) return std::nullopt;
  std::vector<std::string> texts;
  for (const RemedyWords& words : *all) texts.push_back(text_of(words));
  return fmt::format("{} ({})", join(texts, " "), remedy.change);
}

Error in_words_of(spec::Command command, Error refusal) {
  for (const Spelling& spelling : spellings) {
    const std::string option = fmt::format("{} ", spelling.plan);
    const std::string_view here = spelling_of(command, spelling);
    if (here.empty() || !spelling.said.empty() || !refusal.remedy.starts_with(option)) continue;
    const std::string words =
        here == as_setting ? fmt::format("{}=", spelling.key) : fmt::format("{}{}", here, here.ends_with('=') ? "" : " ");
    refusal.remedy.replace(0, option.size(), words);
    break;
  }
  return refusal;
}

}  // namespace muster::planning

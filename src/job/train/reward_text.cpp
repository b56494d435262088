#include "job/train/reward_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::job {

Result<void> check_reward_text(const spec::RewardModelChoice& chosen, const std::vector<data::RowPrompt>& prompts) {
  const auto text = chat::read_model_text(chosen.model, spec::model_search_from_environment());
  if (!text) return bad_input("reward.model: " + text.error().what, text.error().remedy);
  const std::int64_t tokens = text->tokenizer().vocabulary(), rows = chosen.description.config.vocabulary;
  if (tokens > rows)
    return bad_input(fmt::format("reward.model: the tokenizer of {} has {} tokens, and the model knows {}", chosen.model,
                                 tokens, rows),
                     "put the model's own tokenizer beside it");
  const auto talks = std::ranges::find_if(prompts, &data::RowPrompt::rendered);
  if (talks == prompts.end() || text->has_chat_template()) return {};
  return bad_input(fmt::format("{}: it is a conversation, and reward.model {} has no chat template to write it by",
                               talks->where, chosen.model),
                   "put the template that it was trained with beside it as chat_template.jinja, or give prompts as texts");
}

}  // namespace muster::job

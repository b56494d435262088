#include "train/rollouts/prompts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::train {

Result<Prompts> read_prompts(const wire::TrainTask& task, const chat::ModelText& text, std::int64_t longest) {
  auto read = read_questions(task.data, text);
  if (!read) return read.error();
  Prompts prompts;
  for (Question& question : *read) {
    const std::int64_t room = longest - std::ssize(question.tokens);
    if (room < 1 || question.tokens.empty())
      return Error{Error::Kind::bad_input,
                   fmt::format("prompt {} has {} tokens, and prompt and answer together may have {}",
                               prompts.questions.size() + 1, std::ssize(question.tokens), longest),
                   "shorten it, or raise training.sequence_length"};
    question.most_tokens = std::min(room, task.policy->most_tokens);
    prompts.judged.push_back({question.prompt, question.answer, question.row});
    prompts.tokens.push_back(question.tokens);
    prompts.questions.push_back(std::move(question));
  }
  return prompts;
}

// Special tokens that end an answer are left out anyway; others that the user named end it before themselves.
std::string answer_text(const Rollout& rollout, const chat::ModelText& text,
                        const std::vector<std::int64_t>& stop_tokens) {
  std::vector<std::int32_t> tokens = rollout.tokens;
  if (std::ranges::find(stop_tokens, tokens.back()) != stop_tokens.end()) tokens.pop_back();
  return text.tokenizer().decode(tokens, true);
}

}  // namespace muster::train

#include "job/generate/generate_rows.hpp"

#include "json/fields.hpp"
namespace muster::job {

std::string request_row(const PromptRow& prompt, PromptUse use) {
  OrderedJson row = OrderedJson::object();
  if (prompt.prompt)
    row["prompt"] = *prompt.prompt;
  else
    row["messages"] = prompt.messages;
  if (!prompt.tools.is_null()) row["tools"] = prompt.tools;
  if (!prompt.documents.is_null()) row["documents"] = prompt.documents;
  if (!prompt.template_variables.empty()) row["template_variables"] = prompt.template_variables;
  if (prompt.add_generation_prompt) row["add_generation_prompt"] = *prompt.add_generation_prompt;
  if (prompt.continue_final_message) row["continue_final_message"] = true;
  if (prompt.max_new_tokens) row["max_new_tokens"] = *prompt.max_new_tokens;
  if (prompt.adapter != 0) row["adapter"] = prompt.adapter;
  if (use == PromptUse::scores) row["completion"] = prompt.completion.value_or("");
  return as_line(row);
}

std::string answer_lines(std::int64_t index, const OrderedJson& id, const wire::GenerationResult& result,
                         bool log_probabilities) {
  std::string lines;
  for (std::size_t sample = 0; sample < result.samples.size(); ++sample) {
    const wire::Answer& answer = result.samples[sample];
    OrderedJson row = {{"index", index},          {"id", id},
                       {"sample", sample},        {"text", answer.text},
                       {"tokens", answer.tokens}, {"finish", answer.finish}};
    if (log_probabilities) row["logprobs"] = answer.logprobs;
    if (result.dropped_tokens > 0) row["dropped_tokens"] = result.dropped_tokens;
    if (answer.error) row["error"] = *answer.error;
    lines += as_line(row) + '\n';
  }
  return lines;
}

std::string score_line(std::int64_t index, const OrderedJson& id, const wire::ScoreResult& result,
                       bool log_probabilities) {
  OrderedJson row = {{"index", index}, {"id", id}, {"logprob", result.logprob}, {"token_count", result.token_count}};
  if (log_probabilities) row["logprobs"] = result.logprobs;
  if (result.dropped_tokens > 0) row["dropped_tokens"] = result.dropped_tokens;
  if (result.error) {
    row["logprob"] = nullptr;
    row["error"] = *result.error;
  }
  return as_line(row) + '\n';
}

}  // namespace muster::job

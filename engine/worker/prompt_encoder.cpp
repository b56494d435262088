#include "worker/prompt_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::worker {
namespace {

using Json = nlohmann::ordered_json;

Error bad_row(const wire::Request& request, std::string_view what, std::string remedy = {}) {
  return {Error::Kind::bad_input, fmt::format("prompt {}: {}", request.index, what), std::move(remedy)};
}

Result<Json> parse_row(const wire::Request& request) {
  Json row = Json::parse(request.row, nullptr, false);
  if (!row.is_object()) return bad_row(request, "its row is not a JSON object");
  return row;
}

Result<std::vector<std::int32_t>> encode_messages(const chat::ModelText& text, const Json& row) {
  chat::Conversation conversation;
  conversation.messages = row["messages"];
  if (row.contains("tools")) conversation.tools = row["tools"];
  if (row.contains("documents")) conversation.documents = row["documents"];
  if (row.contains("template_variables")) conversation.variables = row["template_variables"];
  conversation.continue_final_message = row.value("continue_final_message", false);
  conversation.add_generation_prompt = row.value("add_generation_prompt", !conversation.continue_final_message);
  return text.encode_chat(conversation);
}

Result<std::vector<std::int32_t>> encode_row(const chat::ModelText& text, const wire::Request& request,
                                             const Json& row) {
  Result<std::vector<std::int32_t>> tokens =
      row.contains("messages") ? encode_messages(text, row) : text.encode(row["prompt"].get_ref<const std::string&>());
  if (!tokens) return bad_row(request, tokens.error().what, tokens.error().remedy);
  if (tokens->empty()) return bad_row(request, "it has no tokens, and a model continues at least one");
  return tokens;
}

// A tokenizer may have more tokens than the model, or be another model's.
Result<void> check_known(const wire::Request& request, const std::vector<std::int32_t>& tokens,
                         std::int64_t vocabulary) {
  const auto most = std::ranges::max_element(tokens);
  if (most == tokens.end() || *most < vocabulary) return {};
  return bad_row(request, fmt::format("it has token {}, and the model knows {} tokens", *most, vocabulary),
                 "use the model's own tokenizer: leave model.tokenizer out");
}

// Keeps the last ones; how many were left out.
std::int64_t keep_last(std::vector<std::int32_t>& tokens, std::int64_t count) {
  const std::int64_t dropped = std::max<std::int64_t>(0, static_cast<std::int64_t>(tokens.size()) - count);
  tokens.erase(tokens.begin(), tokens.begin() + dropped);
  return dropped;
}

}  // namespace

Result<EncodedPrompt> PromptEncoder::encode(const wire::Request& request) const {
  const auto row = parse_row(request);
  if (!row) return row.error();
  auto tokens = encode_row(text_, request, *row);
  if (!tokens) return tokens.error();
  if (auto known = check_known(request, *tokens, room_.vocabulary); !known) return known.error();
  EncodedPrompt prompt{std::move(*tokens), row->value("max_new_tokens", room_.most_new_tokens), 0,
                       row->value("adapter", std::int64_t{0})};
  if (prompt.most_new_tokens >= room_.longest)
    return bad_row(
        request,
        fmt::format("{} new tokens leave no room for a prompt in sequences of {}", prompt.most_new_tokens,
                    room_.longest),
        "lower generation.max_new_tokens, or raise generation.sequence_length where the model has more positions");
  prompt.dropped = keep_last(prompt.tokens, room_.longest - prompt.most_new_tokens);
  return prompt;
}

Result<EncodedPair> PromptEncoder::encode_pair(const wire::Request& request) const {
  const auto row = parse_row(request);
  if (!row) return row.error();
  auto context = encode_row(text_, request, *row);
  if (!context) return context.error();
  const auto completion = text_.encode_rendered((*row)["completion"].get_ref<const std::string&>());
  if (!completion) return bad_row(request, completion.error().what, completion.error().remedy);
  const auto length = static_cast<std::int64_t>(completion->size());
  if (length >= room_.longest)
    return bad_row(request,
                   fmt::format("its completion has {} tokens, and sequences at most {}", length, room_.longest),
                   "raise generation.sequence_length where the model has more positions, or shorten it");
  EncodedPair pair;
  pair.adapter = row->value("adapter", std::int64_t{0});
  pair.dropped = keep_last(*context, room_.longest - length);
  pair.context = static_cast<std::int64_t>(context->size());
  pair.tokens = std::move(*context);
  pair.tokens.insert(pair.tokens.end(), completion->begin(), completion->end());
  if (auto known = check_known(request, pair.tokens, room_.vocabulary); !known) return known.error();
  return pair;
}

}  // namespace muster::worker

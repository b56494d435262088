#include "train/rollouts/reward_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chat/model_text.hpp"
#include "json/json_text.hpp"
#include "spec/model/model_source.hpp"
#include "tensor/element_types.hpp"
#include "train/memory_use.hpp"
#include "train/objective_pass.hpp"
#include "train/objectives/reward_objective.hpp"
#include "train/progress_sign.hpp"

namespace muster::train {
namespace {

using Tokens = std::vector<std::int32_t>;
using Values = std::vector<std::optional<double>>;

// The messages that a row asks by; null: it asks by a text.
nlohmann::ordered_json messages_of(const nlohmann::ordered_json& row) {
  for (const char* key : {"prompt", "question", "messages"})
    if (const auto asked = row.find(key); asked != row.end()) return asked->is_array() ? *asked : nlohmann::ordered_json();
  return {};
}

class RewardModel final : public reward::Part {
 public:
  RewardModel(const wire::TrainTask& task, const TrainerContext& context, tensor::DeviceOps& ops,
              model::CausalModel model, chat::ModelText text)
      : context_(context),
        ops_(ops),
        model_(std::move(model)),
        text_(std::move(text)),
        at_once_(static_cast<std::size_t>(task.reward->program_batch)),
        passes_(make_reward({.reward_model = spec::RewardModelOptions()}), model_, ops_, task.pinned) {}

  bool uses_device() const override { return true; }
  Result<Values> judge(std::span<const reward::Answered> answers) override {
    std::vector<Tokens> texts;
    std::vector<std::size_t> readable;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      auto tokens = tokens_of(answers[i]);
      if (!tokens) return tokens.error();
      texts.push_back(std::move(*tokens));
      if (!texts.back().empty() && std::ssize(texts.back()) <= model_.config().positions) readable.push_back(i);
    }
    Values values(answers.size());
    ProgressSign sign(context_.tell, "scoring by the reward model", std::ssize(readable));
    for (std::size_t first = 0; first < readable.size();) {
      const std::size_t count = std::min(at_once_, readable.size() - first);
      const auto some = std::span(readable).subspan(first, count);
      if (!score(texts, some, values)) {
        at_once_ = (at_once_ + 1) / 2;
        release_cached_memory(context_.device);
        continue;
      }
      first += count;
      sign.give(static_cast<std::int64_t>(first));
    }
    return values;
  }

 private:
  Result<Tokens> tokens_of(const reward::Answered& answered) const;
  // False: memory ran out.
  bool score(const std::vector<Tokens>& texts, std::span<const std::size_t> some, Values& values);

  const TrainerContext& context_;
  tensor::DeviceOps& ops_;
  model::CausalModel model_;
  chat::ModelText text_;
  std::size_t at_once_;  // texts
  ObjectivePass passes_;
};

Result<Tokens> RewardModel::tokens_of(const reward::Answered& answered) const {
  const reward::Question& question = *answered.question;
  nlohmann::ordered_json row;
  if (!question.row.empty()) {
    auto parsed = parse_ordered_json_object(question.row, "the row");
    if (!parsed) return parsed.error();
    row = std::move(*parsed);
  }
  chat::Conversation conversation;
  conversation.messages = messages_of(row);
  if (conversation.messages.is_null()) return text_.encode_rendered(question.prompt + answered.completion);
  const auto is_answered = [&] {
    const bool has_last = !conversation.messages.empty() && conversation.messages.back().is_object();
    return has_last && conversation.messages.back().value("role", "") == "assistant";
  };
  if (is_answered()) conversation.messages.erase(conversation.messages.size() - 1);  // the right answer
  conversation.messages.push_back({{"role", "assistant"}, {"content", answered.completion}});
  if (const auto tools = row.find("tools"); tools != row.end()) conversation.tools = *tools;
  return text_.encode_chat(conversation);
}

bool RewardModel::score(const std::vector<Tokens>& texts, std::span<const std::size_t> some, Values& values) {
  data::MicroBatch batch;
  for (const std::size_t number : some) {
    const Tokens& tokens = texts[number];
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
    batch.parts.push_back(std::ssize(tokens));
    batch.samples.push_back(static_cast<std::int64_t>(number));
    batch.trained_rows.push_back(batch.rows() - 1);
    batch.targets.push_back(0);
  }
  try {
    const at::Tensor scores = passes_.scores(batch).cpu();
    const auto* score = scores.const_data_ptr<float>();
    for (const std::size_t number : some) {
      const float value = *score++;
      if (std::isfinite(value)) values[number] = static_cast<double>(value);
    }
    return true;
  } catch (const c10::OutOfMemoryError&) {
    if (some.size() == 1) throw;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<reward::Part>> make_reward_model(const wire::TrainTask& task, const TrainerContext& context,
                                                        tensor::DeviceOps& ops) {
  const spec::ModelSearch search = spec::model_search_from_environment();
  auto description = spec::read_model(*task.judge, search, std::nullopt);
  if (!description) return description.error();
  const auto weights = checkpoint::open_checkpoint(*task.judge, search);
  if (!weights) return weights.error();
  auto text = chat::read_model_text(*task.judge, search);
  if (!text) return text.error();
  auto forms = model::forms_of_weights(description->shape, **weights, task.judge_weights);
  if (!forms) return forms.error();
  model::LoadOptions options;
  options.type = tensor::to_torch(task.compute);
  options.threads = std::max(1, context.threads);
  options.forms = std::move(*forms);
  auto loaded = model::CausalModel::load(description->config, **weights, ops, options);
  if (!loaded) return loaded.error();
  return std::unique_ptr<reward::Part>(
      std::make_unique<RewardModel>(task, context, ops, std::move(*loaded), std::move(*text)));
}

}  // namespace muster::train

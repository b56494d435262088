#include "train/question_evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "system/files.hpp"
#include "base/text.hpp"
#include "data/row_questions.hpp"
#include "generate/generator.hpp"
#include "generate/local_runner.hpp"
#include "json/json_text.hpp"
#include "train/memory_use.hpp"

namespace muster::train {
namespace {

constexpr std::int64_t block_tokens = 64;

Error bad_row(const std::filesystem::path& path, std::size_t line, const std::string& what) {
  return {Error::Kind::bad_input, fmt::format("{}:{}: {}", path.string(), line, what),
          R"(a row of questions is {"prompt": "12+34=", "answer": "46"})"};
}

class LockstepRunner final : public generate::StepRunner {
 public:
  LockstepRunner(generate::StepRunner& steps, LockstepPasses& pace) : steps_(steps), pace_(pace) {}

  int depth() const override { return steps_.depth(); }
  void begin(const generate::Step& step) override {
    pace_.pass([&] { steps_.begin(step); });
  }
  std::vector<tensor::ChosenToken> finish() override { return steps_.finish(); }

 private:
  generate::StepRunner& steps_;
  LockstepPasses& pace_;
};

}  // namespace

Result<std::vector<Question>> read_questions(const std::filesystem::path& path, const chat::ModelText& text) {
  const auto content = read_file(path);
  if (!content) return content.error();
  std::vector<Question> questions;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < content->size();) {
    const std::size_t end = std::min(content->find('\n', begin), content->size());
    const std::string_view line = std::string_view(*content).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    const auto row = parse_json_object(line, path.string());
    if (!row) return bad_row(path, number, row.error().what);
    const auto prompt = row->find("prompt"), answer = row->find("answer");
    if (prompt == row->end() || answer == row->end() || !prompt->is_string() || !answer->is_string())
      return bad_row(path, number, "it lacks a text \"prompt\" or \"answer\"");
    const bool rendered = row->contains("rendered") && row->at("rendered") == true;
    auto tokens = rendered ? text.encode_rendered(prompt->get<std::string>()) : text.encode(prompt->get<std::string>());
    if (!tokens) return bad_row(path, number, tokens.error().what);
    const auto right = text.encode_rendered(answer->get<std::string>());
    if (!right) return bad_row(path, number, right.error().what);
    questions.push_back({prompt->get<std::string>(), answer->get<std::string>(), std::move(*tokens),
                         data::most_answer_tokens(std::ssize(*right))});
  }
  return questions;
}

Result<QuestionEvaluation> QuestionEvaluation::make(std::vector<Question> questions, const chat::ModelText& text,
                                                    model::CausalModel& model, tensor::DeviceOps& ops,
                                                    std::int64_t most_sequences) {
  QuestionEvaluation made(std::move(questions), text, model, ops, most_sequences);
  const std::int64_t positions = model.config().positions;
  std::int64_t number = 0;
  for (Question& question : made.questions_) {
    ++number;
    const std::int64_t room = positions - std::ssize(question.tokens);
    if (room < question.most_tokens / 2 || question.tokens.empty())
      return Error{Error::Kind::bad_input,
                   fmt::format("question {} and its answer have {} tokens, and the model has {} positions", number,
                               std::ssize(question.tokens) + question.most_tokens / 2, positions),
                   "evaluate on shorter questions, none of them empty"};
    question.most_tokens = std::min(question.most_tokens, room);
    made.longest_ = std::max(made.longest_, std::ssize(question.tokens) + question.most_tokens);
  }
  return made;
}

bool QuestionEvaluation::is_right(const GivenAnswer& answer) const {
  return trim(answer.text) == trim(questions_[answer.question].answer);
}

QuestionEvaluation::Answers QuestionEvaluation::generate_answers(LockstepPasses& pace, communicate::Communicator& ranks,
                                                                 const std::function<void(std::int64_t done)>& done) {
  const auto first = static_cast<std::size_t>(ranks.rank()), stride = static_cast<std::size_t>(ranks.size());
  const std::int64_t blocks = most_sequences_ * ((longest_ + block_tokens - 1) / block_tokens);
  model::KeyValueCache cache(model_.cache_shape(blocks, block_tokens));
  tensor::SamplingRules rules;
  rules.temperature = 0;
  generate::LocalRunner local(model_, ops_, cache, rules, longest_);
  LockstepRunner runner(local, pace);
  generate::BlockPool pool(blocks, block_tokens);
  generate::GeneratorSettings settings;
  settings.end_tokens = text_.end_tokens();
  settings.most_sequences = most_sequences_;
  generate::Generator generator(runner, pool, settings);
  Answers tokens;
  for (std::size_t i = first; i < questions_.size(); i += stride) {
    generator.add({questions_[i].tokens, {{static_cast<std::int64_t>(i), 0, questions_[i].most_tokens}}});
    tokens[static_cast<std::int64_t>(i)];
  }
  while (!generator.idle()) {
    for (const generate::GeneratedToken& token : generator.step())
      if (!std::isnan(token.log_probability)) tokens[token.index].push_back(token.token);
    done(std::ssize(tokens) - generator.load());
  }
  return tokens;
}

std::vector<GivenAnswer> QuestionEvaluation::answer(communicate::Communicator& ranks,
                                                    const std::function<void(std::int64_t done)>& done) {
  Answers tokens;
  const auto answered = [&] {
    LockstepPasses pace(model_.home(), ranks, ops_.device);
    return pace.run([&] { tokens = generate_answers(pace, ranks, done); });
  };
  while (!answered()) {
    TORCH_CHECK_WITH(OutOfMemoryError, most_sequences_ > 1,
                     "one question of the evaluation at a time runs out of memory");
    most_sequences_ = (most_sequences_ + 1) / 2;
    release_cached_memory(ops_.device);
  }
  std::vector<GivenAnswer> answers;
  for (const auto& [question, given] : tokens)
    answers.push_back({static_cast<std::size_t>(question), text_.tokenizer().decode(given, true)});
  return answers;
}

}  // namespace muster::train

#include "train/question_evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "generate/generator.hpp"
#include "generate/local_runner.hpp"
#include "spec/json_text.hpp"

namespace muster::train {
namespace {

constexpr std::int64_t block_tokens = 64;
constexpr std::int64_t most_sequences = 64;
// Beyond the longest right answer, so that a longer one is seen to be wrong.
constexpr std::int64_t spare_tokens = 2;

Error bad_row(const std::filesystem::path& path, std::size_t line, const std::string& what) {
  return {Error::Kind::bad_input, fmt::format("{}:{}: {}", path.string(), line, what),
          R"(a row of questions is {"prompt": "12+34=", "answer": "46"})"};
}

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
    const auto row = spec::parse_json_object(line, path.string());
    if (!row) return bad_row(path, number, row.error().what);
    const auto prompt = row->find("prompt"), answer = row->find("answer");
    if (prompt == row->end() || answer == row->end() || !prompt->is_string() || !answer->is_string())
      return bad_row(path, number, "it lacks a text \"prompt\" or \"answer\"");
    auto tokens = text.encode(prompt->get<std::string>());
    if (!tokens) return bad_row(path, number, tokens.error().what);
    questions.push_back({prompt->get<std::string>(), answer->get<std::string>(), std::move(*tokens)});
  }
  return questions;
}

Result<QuestionEvaluation> QuestionEvaluation::make(std::vector<Question> questions, const chat::ModelText& text,
                                                    model::CausalModel& model, tensor::Arithmetic& arithmetic) {
  QuestionEvaluation made(std::move(questions), text, model, arithmetic);
  std::int64_t longest_prompt = 0;
  for (const Question& question : made.questions_) {
    const auto answer = text.encode(question.answer);
    if (!answer) return answer.error();
    made.most_new_tokens_ = std::max(made.most_new_tokens_, std::ssize(*answer) + spare_tokens);
    longest_prompt = std::max(longest_prompt, std::ssize(question.tokens));
  }
  made.longest_ = longest_prompt + made.most_new_tokens_;
  if (made.longest_ > model.config().positions)
    return Error{Error::Kind::bad_input,
                 fmt::format("a question and its answer have {} tokens, and the model has {} positions", made.longest_,
                             model.config().positions),
                 "evaluate on shorter questions"};
  return made;
}

std::vector<GivenAnswer> QuestionEvaluation::answer(std::size_t first, std::size_t stride) {
  const std::int64_t blocks = most_sequences * ((longest_ + block_tokens - 1) / block_tokens);
  model::KeyValueCache cache(model_.cache_shape(blocks, block_tokens));
  tensor::SamplingRules rules;
  rules.temperature = 0;
  generate::LocalRunner runner(model_, arithmetic_, cache, rules, longest_);
  generate::BlockPool pool(blocks, block_tokens);
  generate::GeneratorSettings settings;
  settings.end_tokens = text_.end_tokens();
  settings.most_sequences = most_sequences;
  generate::Generator generator(runner, pool, settings);
  std::map<std::int64_t, std::vector<std::int32_t>> tokens;
  for (std::size_t i = first; i < questions_.size(); i += stride)
    generator.add({questions_[i].tokens, {{static_cast<std::int64_t>(i), 0, most_new_tokens_}}});
  while (!generator.idle())
    for (const generate::GeneratedToken& token : generator.step()) tokens[token.index].push_back(token.token);
  std::vector<GivenAnswer> answers;
  for (const auto& [question, given] : tokens)
    answers.push_back({static_cast<std::size_t>(question), text_.tokenizer().decode(given, true)});
  return answers;
}

}  // namespace muster::train

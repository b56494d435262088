#include "train/question_evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "system/files.hpp"
#include "base/text.hpp"
#include "data/row_questions.hpp"
#include "json/json_text.hpp"

namespace muster::train {
namespace {

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
    const auto row = parse_json_object(line, path.string());
    if (!row) return bad_row(path, number, row.error().what);
    const auto prompt = row->find("prompt"), answer = row->find("answer");
    if (prompt == row->end() || !prompt->is_string() || (answer != row->end() && !answer->is_string()))
      return bad_row(path, number, "it lacks a text \"prompt\", or its \"answer\" is not one");
    const bool rendered = row->contains("rendered") && row->at("rendered") == true;
    auto tokens = rendered ? text.encode_rendered(prompt->get<std::string>()) : text.encode(prompt->get<std::string>());
    if (!tokens) return bad_row(path, number, tokens.error().what);
    Question& question = questions.emplace_back(prompt->get<std::string>(), std::nullopt, std::move(*tokens));
    if (row->contains("row")) question.row = row->at("row").dump();
    if (answer == row->end()) continue;
    question.answer = answer->get<std::string>();
    const auto right = text.encode_rendered(*question.answer);
    if (!right) return bad_row(path, number, right.error().what);
    question.most_tokens = data::most_answer_tokens(std::ssize(*right));
  }
  return questions;
}

std::string text_of(const generate::Completion& given, const chat::ModelText& text) {
  std::vector<std::int32_t> known;
  for (std::size_t i = 0; i < given.tokens.size(); ++i)
    if (!std::isnan(given.log_probabilities[i])) known.push_back(given.tokens[i]);
  return text.tokenizer().decode(known, true);
}

Result<QuestionEvaluation> QuestionEvaluation::make(std::vector<Question> questions, const chat::ModelText& text,
                                                    model::CausalModel& model, tensor::DeviceOps& ops,
                                                    std::int64_t most_sequences) {
  QuestionEvaluation made(std::move(questions), text, model, ops, most_sequences);
  const std::int64_t positions = model.config().positions;
  std::int64_t number = 0;
  for (Question& question : made.questions_) {
    ++number;
    if (!question.answer)
      return Error{Error::Kind::bad_input, fmt::format("question {} has no right answer", number),
                   R"({"prompt": "12+34=", "answer": "46"})"};
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
  return trim(answer.text) == trim(*questions_[answer.question].answer);
}

std::vector<GivenAnswer> QuestionEvaluation::answer(communicate::Communicator& ranks,
                                                    const std::function<void(std::int64_t done)>& done) {
  generate::SamplerOptions options;
  options.longest = longest_;
  options.rules.temperature = 0;
  options.generator.end_tokens = text_.end_tokens();
  std::vector<generate::Request> requests;
  const auto first = static_cast<std::size_t>(ranks.rank()), stride = static_cast<std::size_t>(ranks.size());
  for (std::size_t i = first; i < questions_.size(); i += stride)
    requests.push_back({questions_[i].tokens, {{static_cast<std::int64_t>(i), 0, questions_[i].most_tokens}}});
  std::vector<GivenAnswer> answers;
  for (const generate::Completion& given : sampler_.complete(requests, options, ranks, done))
    answers.push_back({static_cast<std::size_t>(given.index), text_of(given, text_)});
  return answers;
}

}  // namespace muster::train

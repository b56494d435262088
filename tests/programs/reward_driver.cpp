// Judges answers for the tests that compare with math-verify and TRL. A line in, a line out:
//   {"right": "1/2", "given": "0.5"}             → {"verdict": "equal"}
//   {"right": "1/2", "completion": "So … 0.5."}  → the same, the answer being looked for in a text
//   {"options": {those that are not usual}, "answers": [{"prompt", "answer", "completion", "tokens", "room"}]}
//                                                → {"names": […], "rewards": […], "parts": [[…]]}, or {"error", "remedy"}
#include <iostream>
#include <string>
#include <vector>

#include "json/fields.hpp"
#include "reward/judge.hpp"
#include "reward/math/check.hpp"

namespace muster::reward {
namespace {

std::string_view word(math::Verdict verdict) {
  switch (verdict) {
    case math::Verdict::equal:
      return "equal";
    case math::Verdict::different:
      return "different";
    case math::Verdict::unknown:
      break;
  }
  return "unknown";
}

Json shown_error(const Error& error) { return {{"error", error.what}, {"remedy", error.remedy}}; }

Json judge_all(const Json& order) {
  spec::RewardOptions options;
  Json all = to_json(options);
  all.update(order.at("options"));
  if (const auto wrong = read_json(all, options)) return {{"error", *wrong}};
  auto judge = make_judge(options);
  if (!judge) return shown_error(judge.error());
  std::vector<Question> questions;
  for (const Json& row : order.at("answers"))
    questions.push_back({row.at("prompt").get<std::string>(),
                         row.at("answer").is_null() ? std::nullopt : std::optional(row.at("answer").get<std::string>()), ""});
  std::vector<Answered> answers;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Json& row = order.at("answers").at(i);
    answers.push_back({&questions[i], row.at("completion").get<std::string>(), row.at("tokens").get<std::int64_t>(), true,
                       row.at("room").get<std::int64_t>()});
  }
  const auto judged = judge->judge(answers);
  if (!judged) return shown_error(judged.error());
  Json told = {{"names", judge->names()}, {"rewards", Json::array()}, {"parts", Json::array()}};
  for (const Judged& one : *judged) {
    told["rewards"].push_back(to_json(one.reward));
    told["parts"].push_back(to_json(one.parts));
  }
  return told;
}

Json answer(const Json& order) {
  if (order.contains("options")) return judge_all(order);
  const auto right = order.at("right").get<std::string>();
  return {{"verdict", word(order.contains("given") ? math::compare_answers(right, order.at("given").get<std::string>())
                                                   : math::check(right, order.at("completion").get<std::string>()))}};
}

}  // namespace
}  // namespace muster::reward

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << muster::as_line(muster::reward::answer(muster::Json::parse(line))) << std::endl;
}

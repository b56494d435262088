#include "environment/argument_score.hpp"

#include <algorithm>

#include "environment/words.hpp"

namespace muster::environment {
namespace {

constexpr double full_length = 100;
constexpr double enough = 3;

double up_to_enough(int count) { return std::min(1.0, count / enough); }

int count_numbers(std::string_view text) {
  const auto words = words_of(text);
  return static_cast<int>(std::ranges::count_if(words, [](const std::string& word) {
    return word.front() >= '0' && word.front() <= '9';
  }));
}

int count_paragraphs(std::string_view text) {
  int breaks = 0;
  for (std::size_t at = text.find("\n\n"); at != std::string_view::npos; at = text.find("\n\n", at + 2)) ++breaks;
  return breaks;
}

}  // namespace

ArgumentScore score_argument(std::string_view argument, std::string_view topic) {
  ArgumentScore score;
  score.length = std::min(1.0, static_cast<double>(words_of(argument).size()) / full_length);
  score.evidence = up_to_enough(count_numbers(argument) +
                                count_phrases(argument, {"study", "studies", "research", "data", "evidence", "survey",
                                                         "according to", "for example", "for instance", "statistics"}));
  score.reasoning = up_to_enough(count_phrases(argument, {"because", "therefore", "thus", "hence", "since", "consequently",
                                                          "as a result", "which means", "it follows", "leads to"}));
  score.structure = up_to_enough(count_paragraphs(argument) +
                                 count_phrases(argument, {"first", "firstly", "second", "secondly", "third", "thirdly",
                                                          "finally", "moreover", "furthermore", "however", "in conclusion"}));
  score.relevance = share_within(content_words(topic), content_words(argument));
  return score;
}

double worth_of_debate(const std::vector<std::string>& arguments, std::string_view topic,
                       const std::vector<std::string>& key_points) {
  if (arguments.empty()) return 0;
  double mean = 0;
  std::string all;
  for (const std::string& argument : arguments) {
    mean += score_argument(argument, topic).worth() / static_cast<double>(arguments.size());
    all += argument + "\n";
  }
  double consistency = arguments.size() == 1 ? 1 : 0;
  for (std::size_t i = 1; i < arguments.size(); ++i)
    consistency += jaccard(content_words(arguments[i - 1]), content_words(arguments[i])) /
                   static_cast<double>(arguments.size() - 1);
  double coverage = key_points.empty() ? 1 : 0;
  const auto said = content_words(all);
  for (const std::string& point : key_points)
    if (share_within(content_words(point), said) >= 0.5) coverage += 1 / static_cast<double>(key_points.size());
  return 0.6 * mean + 0.2 * consistency + 0.2 * coverage;
}

}  // namespace muster::environment

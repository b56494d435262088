// What an argument of a debate is worth by its words alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::environment {

// Each from 0 to 1.
struct ArgumentScore {
  double length = 0;     // up to 100 words
  double evidence = 0;   // studies, numbers, examples: up to three
  double reasoning = 0;  // because, therefore, …: up to three
  double structure = 0;  // first, second, finally, paragraphs: up to three
  double relevance = 0;  // the share of the topic's words

  double worth() const { return 0.2 * length + 0.25 * evidence + 0.25 * reasoning + 0.15 * structure + 0.15 * relevance; }
};
ArgumentScore score_argument(std::string_view argument, std::string_view topic);

// 0.6 of the mean worth, 0.2 of how much consecutive arguments have in common, 0.2 of the key points that were made: a point is
// made where half of its words were said. One argument is consistent; without key points all of them are made.
double worth_of_debate(const std::vector<std::string>& arguments, std::string_view topic,
                       const std::vector<std::string>& key_points);

}  // namespace muster::environment

// The words of a text, for measures that look at nothing else.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace muster::environment {

// In lower case and in order: letters, digits and what is not ASCII; an apostrophe within.
std::vector<std::string> words_of(std::string_view text);
// Those of four characters or more that mean something by themselves.
std::set<std::string> content_words(std::string_view text);
// How many of a's are among b's; 0 of an empty a.
double share_within(const std::set<std::string>& a, const std::set<std::string>& b);
// Words in common, of all words of both; 1 where there are none.
double jaccard(const std::set<std::string>& a, const std::set<std::string>& b);
// How often one of these stands in a text, as whole words; phrases are in lower case.
int count_phrases(std::string_view text, std::initializer_list<std::string_view> phrases);

}  // namespace muster::environment

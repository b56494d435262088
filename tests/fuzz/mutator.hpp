// Damaged copies of texts and bytes, for fuzzing.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace muster {

// Takes one of the corpus and changes it in a few places: bytes, words put in or over others, parts left out, repeated
// or taken from another one. The same seed gives the same ones.
class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::vector<std::string> words, std::uint64_t seed)
      : corpus_(std::move(corpus)), words_(std::move(words)), random_(seed) {}

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) change(text);
    if (text.size() > 20'000) text.resize(20'000);
    return text;
  }

 private:
  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(9)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.insert(at, words_[below(words_.size())]);
        break;
      case 2:
        text.erase(at, below(12));
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      case 5: {
        const std::string& other = corpus_[below(corpus_.size())];
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      case 6:
        text.insert(at, std::string(below(300), "[{ \n-:&*\"'0,"[below(12)]));
        break;
      case 7: {
        const std::string& word = words_[below(words_.size())];
        text.replace(at, word.size(), word);
        break;
      }
      default: {
        const auto space = text.find_first_of(" \n", at);
        if (space != std::string::npos) text.replace(at, space - at, words_[below(words_.size())]);
      }
    }
  }

  std::vector<std::string> corpus_, words_;
  std::mt19937_64 random_;
};

}  // namespace muster

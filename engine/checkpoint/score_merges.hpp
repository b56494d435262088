// The merges of a SentencePiece vocabulary, which knows only scores.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/gguf_vocabulary.hpp"

namespace muster::checkpoint {

// Every way to put a token together from two others, the highest score of the whole first; of equal ones the one with
// the longer left part, then the longer right part (in characters), then the smaller ids. The parts are views into the
// vocabulary's tokens.
std::vector<std::pair<std::string_view, std::string_view>> merges_from_scores(const GgufVocabulary& vocabulary);

}  // namespace muster::checkpoint

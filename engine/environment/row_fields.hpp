// What rows of the data say, whichever of the usual names they use.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "environment/environment.hpp"

namespace muster::environment {

using Row = nlohmann::ordered_json;

// The first of these columns that is a text or a number; empty texts are none.
std::optional<std::string> text_of(const Row& row, std::initializer_list<const char*> columns);
// A text, or a list of texts; none where the row has neither.
std::vector<std::string> texts_of(const Row& row, const char* column);
// A conversation's messages, or a question as the user's; an assistant's last message is left out. Refused: neither.
Result<std::vector<Message>> question_of(const Row& row);
// The right answer: of a conversation, its last message where that is the assistant's.
std::optional<std::string> answer_of(const Row& row);

}  // namespace muster::environment

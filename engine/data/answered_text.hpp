// A conversation as the chat template writes it, and which bytes of it are the assistant's answers.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "chat/model_text.hpp"
#include "spec/sft_options.hpp"
#include "spec/trained_answers.hpp"

namespace muster::data {

struct AnsweredText {
  std::string text;
  std::vector<chat::ChatTemplate::Span> answers;  // bytes of the text, in order
  std::vector<chat::ChatTemplate::Span> replies = {};  // likewise: what others say to answers

  bool operator==(const AnsweredText&) const = default;
};

// The texts that a conversation is trained on. A template that marks its answers ({% generation %}) gives one text with
// what it marks.
//
// Note [Answers without marks]
// For other templates an answer is what a rendering that ends with it has after the rendering of the messages before
// it with the generation prompt. Where every such rendering is how the whole conversation begins, the result is one
// text with all answers. Where it is not, because the template writes earlier turns differently once others follow
// (Qwen 3 drops their reasoning), each answer gets a text of its own, which ends with it: what the model sees when it
// writes that answer.
//
// Refused with the reason: no answer at all; a first message from the assistant; a template under which the messages
// before an answer are written differently because of the answer.
Result<std::vector<AnsweredText>> answered_texts(const chat::ModelText& text, const chat::Conversation& conversation,
                                                 spec::TrainedAnswers which);

// The same of what is learnt of a conversation in a mode. A reply is all that the template writes of the messages between an
// answer and the next one. Where one text cannot hold all answers and replies, each gets one of its own. No text: there are
// no replies, and nothing else is learnt.
Result<std::vector<AnsweredText>> learnt_texts(const chat::ModelText& text, const chat::Conversation& conversation,
                                               spec::SftMode mode, spec::TrainedAnswers which);

}  // namespace muster::data

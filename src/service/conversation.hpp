// A conversation with a model: lines of a person in, answers out as they come. Each turn is one request with all
// messages so far.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "base/line_reader.hpp"
#include "service/generate.hpp"
#include "service/generate_rows.hpp"
#include "service/line_output.hpp"

namespace muster::service {

struct ConversationWish {
  std::optional<std::string> system;  // what the model is told before anything else
  int input = 0;                      // descriptor that the person's lines come from
  bool prompting = false;             // a terminal: show where to type
};

class Conversation : public WorkerListener {
 public:
  Conversation(ConversationWish wish, LineOutput output, std::string greeting,
               std::function<void(const std::string&)> note);

  Result<void> happened(const wire::Event& event) override;
  Result<wire::NextRequest> next_request(int rank) override;
  std::optional<int> input() override;

  // Whether an answer is being written.
  bool answering() const { return answering_; }

 private:
  void begin_anew();
  Result<void> prompt();
  Result<void> end_answer(const wire::TaskResult& result);
  // The request that a line makes; nothing where it makes none.
  Result<std::optional<wire::Request>> take(const std::string& line);

  ConversationWish wish_;
  LineOutput output_;
  std::string greeting_;
  std::function<void(const std::string&)> note_;
  LineReader lines_;
  FileDescriptor again_;
  OrderedJson messages_;
  std::int64_t turn_ = 0;
  bool answering_ = false;
  bool ended_ = false;
};

// Runs until the person ends it: the exit code, 128 + signal where a signal did. To be called while this process has
// one thread.
Result<int> converse(Host& host, const GeneratePlan& plan, const ConversationWish& wish,
                     const std::function<void(const std::string&)>& note);

}  // namespace muster::service

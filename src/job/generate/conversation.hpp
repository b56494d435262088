// A conversation with a model: a person's lines in, answers out as they arrive. Each turn is one request with all
// messages so far.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "job/generate/generate.hpp"
#include "job/generate/generate_rows.hpp"
#include "job/generate/line_output.hpp"
#include "job/generate/terminal_lines.hpp"
#include "system/file_descriptor.hpp"
#include "system/line_reader.hpp"

namespace muster::job {

struct ConversationRequest {
  std::optional<std::string> system;  // given to the model before anything else
  int input = 0;                      // descriptor that the person's lines are read from
  bool prompting = false;             // a terminal: lines are edited, and Ctrl-C ends an answer
  std::optional<TypedHistory> history = {};  // of what is typed at a terminal
};

class Conversation : public WorkerListener {
 public:
  Conversation(ConversationRequest wanted, LineOutput output, std::string greeting,
               std::function<void(const std::string&)> note);

  Result<void> on_event(const wire::Event& event) override;
  Result<wire::NextRequest> next_request(int rank) override;
  std::optional<int> input() override;

 private:
  void reset();
  Result<void> prompt();
  Result<NextLine> next_line();
  // While an answer is being written: Ctrl-C asks for it to end.
  Result<wire::NextRequest> watch_answer();
  Result<void> end_answer(const wire::TaskResult& result);
  // The request for a line; nothing if the line makes none.
  Result<std::optional<wire::Request>> take(const std::string& line);

  ConversationRequest wanted_;
  LineOutput output_;
  std::string greeting_;
  std::function<void(const std::string&)> note_;
  LineReader lines_;
  std::unique_ptr<TerminalLines> terminal_;  // used instead of lines_ when the person is at a terminal
  FileDescriptor again_;
  OrderedJson messages_;
  std::int64_t turn_ = 0;
  bool answering_ = false;
  bool cancelled_ = false;  // the answer was cancelled but is still running
  bool ended_ = false;
};

// Runs until the person ends it: the exit code, 128 + signal where a signal did. To be called while this process has
// one thread.
Result<int> converse(host::Host& host, const GeneratePlan& plan, const ConversationRequest& wanted,
                     const std::function<void(const std::string&)>& note);

}  // namespace muster::job

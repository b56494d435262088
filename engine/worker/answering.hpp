// Answers requests: takes them, has their tokens generated, and reports the texts.
#pragma once

#include <map>

#include "generate/generator.hpp"
#include "worker/answer_text.hpp"
#include "worker/loaded_model.hpp"
#include "worker/prompt_encoder.hpp"
#include "worker/work_progress.hpp"

namespace muster::worker {

class Answering {
 public:
  // All must outlive this.
  Answering(const wire::GenerateTask& task, Job& job, const LoadedModel& loaded, generate::StepRunner& runner,
            generate::BlockPool& pool);

  Result<void> run();

 private:
  // The answers to one request, as they grow.
  struct OpenRequest {
    wire::GenerationResult result;
    std::vector<AnswerText> texts;  // by sample, where somebody reads along or stop texts are looked for
    std::int64_t unfinished = 0;
    bool cancelled = false;  // ends with the next token
  };

  Result<void> take_requests();
  Result<void> add(const wire::Request& request);
  void note_cancelled();
  void extend(const generate::GeneratedToken& token);
  bool read_along(OpenRequest& open, const generate::GeneratedToken& token);
  // Ends an answer; with the last one of a request the result is reported.
  void end_answer(std::int64_t index, std::int64_t sample, std::string finish);
  void fail(const generate::GeneratedToken& token);

  const wire::GenerateTask& task_;
  Job& job_;
  const chat::ModelText& text_;
  PromptEncoder encoder_;
  generate::Generator generator_;
  std::map<std::int64_t, OpenRequest> open_;
  std::int64_t wanted_ = 0;  // requests that were asked for and have not come
  bool ended_ = false;       // no more will come
  WorkProgress progress_;
};

// How sequences are scheduled on the job's device.
generate::GeneratorSettings generator_settings(const wire::GenerateTask& task, const Job& job,
                                               const LoadedModel& loaded);

}  // namespace muster::worker

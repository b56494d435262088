#include "worker/answering.hpp"

#include <fmt/format.h>

#include <cmath>

#include "json/fields.hpp"

namespace muster::worker {
namespace {

constexpr double gpu_prefill_patience = 0.25;

}  // namespace

generate::GeneratorSettings generator_settings(const wire::GenerateTask& task, const Job& job,
                                               const LoadedModel& loaded) {
  generate::GeneratorSettings settings;
  settings.penalizes_repetition = task.repetition_penalty != 1;
  settings.seed = job.assignment().seed;
  settings.end_tokens = loaded.text->end_tokens();
  settings.end_tokens.insert(settings.end_tokens.end(), task.stop_tokens.begin(), task.stop_tokens.end());
  settings.most_sequences = task.sequences();
  settings.prefill_patience = job.device.is_cuda() ? gpu_prefill_patience : 0;
  return settings;
}

Answering::Answering(const wire::GenerateTask& task, Job& job, const LoadedModel& loaded, generate::StepRunner& runner,
                     generate::BlockPool& pool)
    : task_(task),
      job_(job),
      text_(*loaded.text),
      encoder_(*loaded.text, {loaded.longest(task), task.max_new_tokens, loaded.model->config().vocabulary}),
      generator_(runner, pool, generator_settings(task, job, loaded)),
      progress_(job) {}

// Asks for as many as keep the device busy; waits for one only where there is nothing else to do.
Result<void> Answering::take_requests() {
  const std::int64_t enough = 2 * task_.sequences() / task_.samples + 1;
  const std::int64_t more = enough - static_cast<std::int64_t>(open_.size()) - wanted_;
  if (!ended_ && more > 0) {
    job_.channel.want(static_cast<int>(more));
    wanted_ += more;
  }
  while (!ended_) {
    const bool waits = generator_.idle();
    const auto request = waits ? job_.channel.next_request() : job_.channel.take_request(ended_);
    if (!request) {
      ended_ = ended_ || waits;
      break;
    }
    --wanted_;
    if (auto added = add(*request); !added) return added;
  }
  return {};
}

void Answering::note_cancelled() {
  for (const std::int64_t index : job_.channel.take_cancelled())
    if (const auto found = open_.find(index); found != open_.end()) found->second.cancelled = true;
}

Result<void> Answering::add(const wire::Request& request) {
  auto prompt = encoder_.encode(request);
  if (!prompt) return prompt.error();
  OpenRequest& open = open_[request.index];
  open.result.samples.resize(static_cast<std::size_t>(task_.samples));
  open.unfinished = task_.samples;
  open.result.prompt_tokens = static_cast<std::int64_t>(prompt->tokens.size());
  open.result.dropped_tokens = prompt->dropped;
  generate::Request asked{std::move(prompt->tokens), {}, prompt->adapter};
  for (std::int64_t sample = 0; sample < task_.samples; ++sample) {
    asked.branches.push_back({request.index, sample, prompt->most_new_tokens});
    if (task_.stream || !task_.stop.empty()) open.texts.emplace_back(text_.tokenizer(), task_.stop);
  }
  generator_.add(std::move(asked));
  return {};
}

// Whether the text ends the answer.
bool Answering::read_along(OpenRequest& open, const generate::GeneratedToken& token) {
  const auto sample = static_cast<std::size_t>(token.sample);
  AnswerText& text = open.texts[sample];
  std::string piece = text.push(token.token);
  if (token.finish) piece += text.finish();
  open.result.samples[sample].text += piece;
  if (task_.stream && !piece.empty())
    job_.channel.tell(wire::Token{token.index, static_cast<int>(token.sample), std::move(piece)});
  return text.stopped();
}

void Answering::end_answer(std::int64_t index, std::int64_t sample, std::string finish) {
  OpenRequest& open = open_.at(index);
  wire::Answer& answer = open.result.samples[static_cast<std::size_t>(sample)];
  answer.finish = std::move(finish);
  if (open.texts.empty()) answer.text = text_.tokenizer().decode(answer.tokens, true);
  if (--open.unfinished > 0) return;
  job_.channel.tell(wire::TaskResult{index, print_fields(open.result)});
  open_.erase(index);
}

// The other answers, of this prompt and of others, do not depend on this one.
void Answering::fail(const generate::GeneratedToken& token) {
  OpenRequest& open = open_.at(token.index);
  const auto sample = static_cast<std::size_t>(token.sample);
  wire::Answer& answer = open.result.samples[sample];
  if (!open.texts.empty()) answer.text += open.texts[sample].finish();
  answer.error = fmt::format("the model's logits for token {} of the answer are not numbers (NaN)", answer.tokens.size() + 1);
  end_answer(token.index, token.sample, "error");
}

void Answering::extend(const generate::GeneratedToken& token) {
  if (std::isnan(token.log_probability)) return fail(token);
  OpenRequest& open = open_.at(token.index);
  wire::Answer& answer = open.result.samples[static_cast<std::size_t>(token.sample)];
  answer.tokens.push_back(token.token);
  progress_.add(1);
  if (task_.log_probabilities) answer.logprobs.push_back(static_cast<double>(token.log_probability));
  const bool stopped = !open.texts.empty() && read_along(open, token);
  const bool ends_early = stopped || open.cancelled;
  if (ends_early && !token.finish) generator_.stop(token.index, token.sample);
  if (!ends_early && !token.finish) return;
  const bool at_its_end = stopped || token.finish == generate::Finish::stop;
  end_answer(token.index, token.sample, at_its_end ? "stop" : token.finish ? "length" : "cancelled");
}

Result<void> Answering::run() {
  while (true) {
    if (auto taken = take_requests(); !taken) return taken;
    if (generator_.idle()) break;
    note_cancelled();
    for (const generate::GeneratedToken& token : generator_.step()) extend(token);
    progress_.tell_now_and_then();
  }
  progress_.tell();
  return {};
}

}  // namespace muster::worker

// A task that answers or scores requests: a model, how its answers are drawn, and what results look like.
//
// A request's row is a prompt as a user wrote it: {"prompt": text} or {"messages": […], "tools",
// "add_generation_prompt", "template_variables"}, perhaps "max_new_tokens", and for scoring "completion". Its result is
// a GenerationResult or a ScoreResult.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/model_choice.hpp"

namespace muster::wire {

// Consecutive layers of a model, the part of it that one rank holds. The first stage has the embedding, too, the last
// one the final norm and the head.
struct Stage {
  std::int64_t first_layer = 0;
  std::int64_t last_layer = 0;  // included

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("first_layer", self.first_layer);
    visit("last_layer", self.last_layer);
  }
  bool operator==(const Stage&) const = default;
};

// Parts of a model that do not stay on a rank's device, and are brought there for each pass.
struct Offload {
  std::vector<std::int64_t> layers;
  bool embedding = false;
  bool head = false;  // with the final norm

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("layers", self.layers);
    visit("embedding", self.embedding);
    visit("head", self.head);
  }
  bool empty() const { return layers.empty() && !embedding && !head; }
  bool operator==(const Offload&) const = default;
};

struct GenerateTask {
  ModelChoice model;
  std::int64_t batch_size = 8;          // sequences computed in one step
  std::int64_t sequence_length = 2048;  // of prompt and answer together; the model's positions if those are fewer
  std::int64_t max_new_tokens = 256;
  std::int64_t samples = 1;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::vector<std::string> stop;          // an answer ends before the first of these; its text does not have it
  std::vector<std::int32_t> stop_tokens;  // end an answer, in addition to the model's own
  std::int64_t cache_blocks = 0;          // of keys and values; 0: enough for sequences() of full length
  std::vector<Stage> stages;              // of consecutive ranks; empty: every rank has all layers
  Offload in_host_memory;
  Offload on_disk;
  bool score = false;              // given completions instead of new ones
  bool log_probabilities = false;  // of the answers' tokens
  bool stream = false;             // send every piece of text as it arrives

  // In flight at once on a replica: a batch for each stage, so that none is idle.
  std::int64_t sequences() const { return batch_size * std::max<std::int64_t>(std::ssize(stages), 1); }

  static constexpr std::string_view word = "generate";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    ModelChoice::describe(self.model, visit);  // among the task's own fields
    visit("batch_size", self.batch_size);
    visit("sequence_length", self.sequence_length);
    visit("max_new_tokens", self.max_new_tokens);
    visit("samples", self.samples);
    visit("temperature", self.temperature);
    visit("top_k", self.top_k);
    visit("top_p", self.top_p);
    visit("min_p", self.min_p);
    visit("repetition_penalty", self.repetition_penalty);
    visit("stop", self.stop);
    visit("stop_tokens", self.stop_tokens);
    visit("cache_blocks", self.cache_blocks);
    visit("stages", self.stages);
    visit("in_host_memory", self.in_host_memory);
    visit("on_disk", self.on_disk);
    visit("score", self.score);
    visit("log_probabilities", self.log_probabilities);
    visit("stream", self.stream);
  }
  bool operator==(const GenerateTask&) const = default;
};

struct Answer {
  std::string text;
  std::vector<std::int32_t> tokens;
  std::string finish;  // "stop", "length"; "cancelled" where it was no longer wanted; "error"
  std::vector<double> logprobs;      // by token, if requested
  std::optional<std::string> error;  // why it ends where it does

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("text", self.text);
    visit("tokens", self.tokens);
    visit("finish", self.finish);
    visit("logprobs", self.logprobs);
    visit("error", self.error);
  }
  bool operator==(const Answer&) const = default;
};

struct GenerationResult {
  std::vector<Answer> samples;
  std::int64_t prompt_tokens = 0;
  std::int64_t dropped_tokens = 0;  // from the prompt's beginning, if it was too long

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("samples", self.samples);
    visit("prompt_tokens", self.prompt_tokens);
    visit("dropped_tokens", self.dropped_tokens);
  }
  bool operator==(const GenerationResult&) const = default;
};

struct ScoreResult {
  double logprob = 0;  // of the whole completion
  std::int64_t token_count = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t dropped_tokens = 0;
  std::vector<double> logprobs;      // by token, if requested
  std::optional<std::string> error;  // why it has no score

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("logprob", self.logprob);
    visit("token_count", self.token_count);
    visit("prompt_tokens", self.prompt_tokens);
    visit("dropped_tokens", self.dropped_tokens);
    visit("logprobs", self.logprobs);
    visit("error", self.error);
  }
  bool operator==(const ScoreResult&) const = default;
};

}  // namespace muster::wire

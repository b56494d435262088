// What a training rank reports: its steps, its memory, its checkpoints, its evaluations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/step_record.hpp"
#include "wire/train_task.hpp"

namespace muster::wire {

// Where rank 0's time went from the previous step to this one, in seconds. All but communication add up to the step's.
struct StepParts {
  double loading = 0;        // waiting for the batch
  double compute = 0;        // forward, backward and the norm, without waiting
  double exposed = 0;        // waiting for exchanges between ranks
  double update = 0;         // the optimizer; on a GPU, of the step before, which runs while this one begins
  double host = 0;           // everything else: checkpoints, evaluations, reporting
  double communication = 0;  // exchanging, most of it during the computing
  // What the answers took that are then trained on; absent: none were sampled for this step.
  std::optional<double> sampling;
  std::optional<double> judging;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("loading", self.loading);
    visit("compute", self.compute);
    visit("exposed", self.exposed);
    visit("update", self.update);
    visit("host", self.host);
    visit("communication", self.communication);
    visit("sampling", self.sampling);
    visit("judging", self.judging);
  }
  bool operator==(const StepParts&) const = default;
};

// One optimizer step, reported by rank 0 for all.
struct TrainStep : StepRecord {
  std::int64_t trained = 0;  // those of the tokens that have a loss
  StepParts parts;
  bool skipped = false;  // float16: the gradients overflowed, and the weights stayed
  std::optional<double> loss_scale;

  static constexpr std::string_view word = "step";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    StepRecord::describe(self, visit);
    visit("trained", self.trained);
    visit("parts", self.parts);
    visit("skipped", self.skipped);
    visit("loss_scale", self.loss_scale);
  }
  bool operator==(const TrainStep&) const = default;
};

// What this rank holds of its device's memory; sent every so often.
struct MemoryUse {
  std::int64_t step = 0;
  std::int64_t used = 0;  // bytes in tensors, or resident on a CPU rank
  std::int64_t reserved = 0;
  std::int64_t peak = 0;
  std::optional<std::int64_t> total;  // of the device

  static constexpr std::string_view word = "memory";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("step", self.step);
    visit("used", self.used);
    visit("reserved", self.reserved);
    visit("peak", self.peak);
    visit("total", self.total);
  }
  bool operator==(const MemoryUse&) const = default;
};

// This rank ran out of memory. All ranks compute the step again by smaller passes, and those that follow, too.
struct PassReduced {
  std::int64_t step = 0;  // the one that is computed again
  std::int64_t micro_batch = 1;
  spec::Recomputation recompute = spec::Recomputation::none;

  static constexpr std::string_view word = "shrunk";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("step", self.step);
    visit("micro_batch", self.micro_batch);
    visit("recompute", self.recompute);
  }
  bool operator==(const PassReduced&) const = default;
};

// A checkpoint is complete.
struct Saved {
  std::int64_t step = 0;
  std::string folder;
  double seconds = 0;

  static constexpr std::string_view word = "saved";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("step", self.step);
    visit("folder", self.folder);
    visit("seconds", self.seconds);
  }
  bool operator==(const Saved&) const = default;
};

// A save or the export waits for space on the disk, which only the user can free.
struct Waiting {
  std::string what;  // for the user

  static constexpr std::string_view word = "waiting";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("what", self.what);
  }
  bool operator==(const Waiting&) const = default;
};

// A question, what the model answered, and what was right.
struct AnsweredQuestion {
  std::string prompt;
  std::string answer;
  std::string expected;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("prompt", self.prompt);
    visit("answer", self.answer);
    visit("expected", self.expected);
  }
  bool operator==(const AnsweredQuestion&) const = default;
};

struct Evaluated {
  std::int64_t step = 0;
  std::optional<double> loss;
  std::int64_t tokens = 0;  // with a loss
  std::optional<std::vector<NamedNumber>> metrics;  // as StepRecord::metrics, named "eval_…"
  std::optional<std::int64_t> correct;
  std::optional<std::int64_t> questions;
  std::vector<AnsweredQuestion> samples;
  double seconds = 0;

  // Share of right answers, from 0 to 1.
  std::optional<double> exact_match() const {
    if (questions.value_or(0) == 0) return std::nullopt;
    return static_cast<double>(correct.value_or(0)) / static_cast<double>(*questions);
  }

  static constexpr std::string_view word = "evaluated";
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("step", self.step);
    visit("loss", self.loss);
    visit("tokens", self.tokens);
    visit("metrics", self.metrics);
    visit("correct", self.correct);
    visit("questions", self.questions);
    visit("samples", self.samples);
    visit("seconds", self.seconds);
  }
  bool operator==(const Evaluated&) const = default;
};

}  // namespace muster::wire

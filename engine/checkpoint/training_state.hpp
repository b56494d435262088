// What a training run must know besides its tensors to continue as if nothing had happened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/step_record.hpp"

namespace muster::checkpoint {

// The next unit of the data that is trained on; it does not depend on the number of ranks.
struct DataCursor {
  std::int64_t epoch = 0;
  std::int64_t unit = 0;

  bool operator==(const DataCursor&) const = default;
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("epoch", self.epoch);
    visit("unit", self.unit);
  }
};

// The state of float16's dynamic loss scaling.
struct LossScale {
  double scale = 1;
  std::int64_t good_steps = 0;  // since it last changed

  bool operator==(const LossScale&) const = default;
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("scale", self.scale);
    visit("good_steps", self.good_steps);
  }
};

using wire::NamedNumber;

// What was reported about one step, with what was measured after it; absent where no evaluation was due.
struct StepNumbers : wire::StepRecord {
  std::optional<double> eval_loss = {};
  std::optional<double> exact_match = {};
  std::optional<std::vector<NamedNumber>> eval_metrics = {};

  bool operator==(const StepNumbers&) const = default;
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    StepRecord::describe(self, visit);
    visit("eval_loss", self.eval_loss);
    visit("exact_match", self.exact_match);
    visit("eval_metrics", self.eval_metrics);
  }
};

struct TrainingState {
  std::int64_t step = 0;              // optimizer steps done
  std::string optimizer;              // "adamw"
  std::vector<NamedNumber> schedule;  // what the schedule follows from: peak rate, warm-up, all steps
  std::optional<LossScale> loss_scale;
  std::uint64_t seed = 0;
  DataCursor cursor;
  std::string data_identity;      // hash of the token file
  std::string model_identity;     // hash of what decides the shape
  std::string settings_hash;      // of all settings that change numbers
  std::string muster_version;     // that wrote it
  std::vector<NamedNumber> more;  // what else the loop wants back
  // The last steps up to this one, oldest first: the process that records them may have been killed before it could.
  std::vector<StepNumbers> last_steps = {};

  bool operator==(const TrainingState&) const = default;
  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("step", self.step);
    visit("optimizer", self.optimizer);
    visit("schedule", self.schedule);
    visit("loss_scale", self.loss_scale);
    visit("seed", self.seed);
    visit("cursor", self.cursor);
    visit("data_identity", self.data_identity);
    visit("model_identity", self.model_identity);
    visit("settings_hash", self.settings_hash);
    visit("muster_version", self.muster_version);
    visit("more", self.more);
    visit("last_steps", self.last_steps);
  }
};

}  // namespace muster::checkpoint

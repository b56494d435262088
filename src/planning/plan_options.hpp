// The options of `muster plan`, each named once, and the answer to them: shared by the command and Python.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "host/host.hpp"
#include "plan/plan.hpp"
#include "planning/configuration.hpp"
#include "planning/plan_report.hpp"

namespace muster::planning {

struct PlanOptions {
  // One word among the settings may not be a setting: the model, or a run's configuration file.
  GivenConfiguration configuration;
  std::map<std::string, std::string> values;  // of plan_settings()
  std::optional<std::string> parameters;
  std::optional<std::string> max_memory;
  std::optional<std::string> cpu_memory;
  std::optional<std::string> disk_memory;
  std::optional<std::int64_t> adapter_rank;
  std::string implementation = "transformers";
  std::string planner = "optimal";
  std::string allocator = "auto";
  std::optional<std::string> constants;
  bool train = false;
  bool infer = false;
  bool checkpointing = false;
  bool offload = false;
};

// An option that is short for a setting; which one may depend on the work.
struct PlanSetting {
  std::string_view option;
  std::string_view training_key;
  std::string_view inference_key;
  std::string_view help;
};
std::span<const PlanSetting> plan_settings();

// An option of the plan's own. A bool is a flag; one without a default value is optional.
struct PlanOption {
  using Member = std::variant<bool PlanOptions::*, std::string PlanOptions::*,
                              std::optional<std::string> PlanOptions::*, std::optional<std::int64_t> PlanOptions::*>;
  std::string_view option;
  Member member;
  std::string_view help;
};
std::span<const PlanOption> plan_options();

// "0=10GB,1=8GiB,cpu=30GiB", as --max-memory has it → "{0: 10GB, 1: 8GiB, cpu: 30GiB}", as the setting has it.
Result<std::string> limits_as_table(const std::string& text);

// The options from words, as a command line has them: plan_options(), plan_settings(), spec::short_options(), and words
// without an option. --gpus-from is skipped: it says which host is asked.
Result<PlanOptions> read_plan_options(std::span<const PlanCommandLine::Given> given);

// The setting that a word sets: "max_seq_length=512" → "training.sequence_length".
std::string key_of_setting(const std::string& word);

// The run's settings as the options have them; --train is set where a run's configuration is the subject.
Result<spec::ResolvedSpec> resolve_plan_settings(PlanOptions& options);

struct PlanAnswer {
  plan::Question question;
  plan::Plan plan;
  std::vector<std::string> notes;  // on the configuration, to be shown once
};
// Looks at the GPUs, reads the model, plans. A plan that does not fit is an answer.
Result<PlanAnswer> answer_plan(host::Host& host, PlanOptions options);

}  // namespace muster::planning

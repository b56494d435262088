// The settings of a training run, with everything that follows from them filled in.
#include <fmt/format.h>

#include <algorithm>

#include "data/prepare_data.hpp"
#include "job/builtin_model.hpp"
#include "spec/codec.hpp"
#include "job/model_forms.hpp"
#include "job/train/train.hpp"

namespace muster::job {
namespace {

class Settling {
 public:
  explicit Settling(spec::ResolvedSpec given) : resolved_(std::move(given)), spec_(resolved_.spec) {}

  Result<spec::ResolvedSpec> settle() {
    pass_over_stage();
    take_environments();
    take_defaults_of_preferences();
    take_defaults_of_policies();
    if (spec::samples_answers(spec_.training.algorithm))
      take_builtin_rounds();
    else
      take_builtin_job();
    take_mini_batches();
    if (auto taken = take_model_name(spec_.model); !taken) return taken.error();
    for (Problem& problem : missing_capabilities(spec::Schema(), resolved_)) problems_.push_back(std::move(problem));
    check_names();
    check_device_map();
    check_algorithm();
    if (!problems_.empty()) return to_error(problems_);
    return std::move(resolved_);
  }

 private:
  bool is_given(const std::string& key) const { return resolved_.origins.contains(key); }
  template <class T>
  void otherwise(const std::string& key, T& value, T fallback) {
    if (!is_given(key)) value = std::move(fallback);
  }
  void report(const std::string& key, std::string what, std::string remedy) {
    const auto found = resolved_.origins.find(key);
    problems_.push_back(
        {found == resolved_.origins.end() ? "" : found->second.where, std::move(what), std::move(remedy)});
  }

  void note(std::string text) { resolved_.notes.push_back(std::move(text)); }

  void pass_over_stage() {
    if (spec_.distributed.zero_stage && spec_.distributed.strategy != spec::Strategy::deepspeed)
      note(fmt::format("distributed.zero_stage changes nothing: it is DeepSpeed's, and distributed.strategy is {}",
                       spec::write(spec_.distributed.strategy)));
  }

  // What is said about environments and has no part in this training; guide 0's files have all of it, whatever is trained by.
  void take_environments() {
    auto& environment = spec_.environment;
    for (const std::string& key : environment.evaluations.passed_over)
      note(fmt::format("environment.evaluations: {} changes nothing: problems are the rows of its data", key));
    if (spec::samples_answers(spec_.training.algorithm))
      take_only_environment();
    else if (environment.type)
      note(fmt::format("environment.type={} changes nothing: {} learns from data, not from what a model does; "
                       "environment.evaluations say what it is evaluated in",
                       spec::write(*environment.type), spec::write(spec_.training.algorithm)));
    if (spec_.training.max_episode_length && !environment.type && environment.evaluations.list.empty())
      note("training.max_episode_length changes nothing: there is no environment");
  }

  // Where nothing judges but the environments of evaluations, as in guide 0's files, they are what is trained in as well.
  void take_only_environment() {
    const auto& list = spec_.environment.evaluations.list;
    if (list.empty() || spec_.environment.type || spec_.reward.functions) return;
    const spec::EnvironmentOptions options = spec_.evaluation_environment(list.front());
    for (const spec::EvaluationEnvironment& one : list)
      if (spec_.evaluation_environment(one) != options) {
        report("environment.evaluations", "the environments differ, and nothing says which of them is trained in",
               "environment.type (policy_env.env_type) names it");
        return;
      }
    const spec::EvaluationEnvironment& first = list.front();
    const auto take = [](const auto& given, auto& value) {
      if (given) value = *given;
    };
    spec_.environment.type = first.type;
    take(first.max_attempts, spec_.environment.max_attempts);
    take(first.rounds, spec_.environment.rounds);
    take(first.reward_steps, spec_.environment.reward_steps);
    take(first.timeout, spec_.environment.timeout);
    take(first.reward_scale, spec_.reward.scale);
    take(first.reward_bias, spec_.reward.bias);
    if (first.reward_clip) spec_.reward.clip = first.reward_clip;
    if (first.max_episode_length) spec_.training.max_episode_length = first.max_episode_length;
    if (!spec_.data.path) spec_.data.path = first.data;
    note(fmt::format("trained in {}, the environment of its evaluations: no other is named", spec::write(first.type)));
  }

  // TRL's rate, and no dropout: the policy is compared with what its weights say.
  void take_defaults_of_preferences() {
    if (!spec::learns_from_preferences(spec_.training.algorithm)) return;
    const bool scores = spec_.training.algorithm == spec::Algorithm::reward;
    otherwise("training.learning_rate", spec_.training.learning_rate, scores ? 1e-4 : 1e-6);
    otherwise("model.lora_dropout", spec_.model.lora_dropout, 0.0);
    if (scores) take_trained_head();
  }

  // Beside adapters the head that scores is trained as a whole: it may have begun from random numbers.
  void take_trained_head() {
    auto& saved = spec_.model.modules_to_save;
    if (spec_.model.use_lora && std::ranges::find(saved, "score") == saved.end()) saved.emplace_back("score");
  }

  void take_defaults_of_policies() {
    if (!spec::samples_answers(spec_.training.algorithm)) return;
    const bool has_critic = spec_.training.algorithm == spec::Algorithm::ppo;
    otherwise("training.learning_rate", spec_.training.learning_rate, has_critic ? 3e-6 : 1e-6);
    otherwise("model.lora_dropout", spec_.model.lora_dropout, 0.0);
  }

  void save_and_evaluate_every(std::int64_t save_steps, std::int64_t eval_steps) {
    if (!is_given("training.save_every"))
      otherwise("training.save_steps", spec_.training.save_steps, std::optional(save_steps));
    if (!is_given("training.eval_every"))
      otherwise("training.eval_steps", spec_.training.eval_steps, std::optional(eval_steps));
  }

  // Known once the answers of a round are.
  void take_mini_batches() {
    const auto parts = spec_.ppo.num_mini_batches;
    if (spec_.training.algorithm != spec::Algorithm::ppo || !parts) return;
    spec_.training.batch_size = (spec_.policy_options()->answers + *parts - 1) / *parts;
  }

  // Two-digit addition, by a model that was stopped half-way and gets most of it right.
  void take_builtin_rounds() {
    const std::string arithmetic = data::arithmetic_name;
    if (!spec_.model.path && !spec_.data.path) spec_.data.path = arithmetic;
    if (!spec_.model.path && spec_.data.path == arithmetic) spec_.model.path = halfway_model_name;
    if (spec_.data.path != arithmetic || spec_.model.path != halfway_model_name) return;
    auto& training = spec_.training;
    otherwise("experiment.name", spec_.experiment.name, std::optional<std::string>("arithmetic-rewards"));
    if (!spec_.environment.type)
      otherwise("reward.functions", spec_.reward.functions, std::optional(std::vector{spec::RewardFunction::exact}));
    if (!is_given("training.num_epochs") && !is_given("training.num_iterations"))
      otherwise("training.max_steps", training.max_steps, std::optional<std::int64_t>(200));
    otherwise<std::int64_t>("grpo.num_generations", spec_.grpo.num_generations, 16);
    otherwise<std::int64_t>("rloo.num_generations", spec_.rloo.num_generations, 16);
    otherwise<std::int64_t>("ppo.num_generations", spec_.ppo.num_generations, 16);
    otherwise<std::int64_t>("ppo.num_ppo_epochs", spec_.ppo.num_ppo_epochs, 1);
    otherwise("ppo.gamma", spec_.ppo.gamma, 1.0);
    otherwise("ppo.entropy_coef", spec_.ppo.entropy_coef, 0.0);
    otherwise("training.num_rollouts_per_iteration", training.num_rollouts_per_iteration,
              std::optional<std::int64_t>(2048));
    otherwise<std::int64_t>("training.sequence_length", training.sequence_length, 4 * spec_.data.digits + 8);
    otherwise<std::int64_t>("generation.max_new_tokens", spec_.generation.max_new_tokens, 2 * spec_.data.digits + 2);
    otherwise("training.learning_rate", training.learning_rate, 4e-4);
    otherwise("training.adam_beta2", training.adam_beta2, 0.99);
    otherwise("training.weight_decay", training.weight_decay, 0.0);
    otherwise<std::int64_t>("training.warmup_steps", training.warmup_steps, 10);
    save_and_evaluate_every(100, 50);
    otherwise("training.save_total_limit", training.save_total_limit, std::optional<std::int64_t>(2));
  }

  // Two-digit addition, learnt from nothing in about two minutes.
  void take_builtin_job() {
    const std::string arithmetic = data::arithmetic_name;
    if (!spec_.model.path && !spec_.data.path) spec_.data.path = arithmetic;
    if (!spec_.model.path && spec_.data.path == arithmetic) spec_.model.path = builtin_model_name;
    const bool is_builtin = spec_.model.path && is_builtin_model(*spec_.model.path);
    if (is_builtin) spec_.model.init = spec::WeightSource::random;
    if (spec_.data.path != arithmetic || !is_builtin) return;
    auto& training = spec_.training;
    otherwise("experiment.name", spec_.experiment.name, std::optional<std::string>("arithmetic"));
    if (!is_given("training.num_epochs") && !is_given("training.num_iterations"))
      otherwise("training.max_steps", training.max_steps, std::optional<std::int64_t>(1200));
    if (!is_given("training.micro_batch_size") && !is_given("training.gradient_accumulation_steps"))
      otherwise("training.batch_size", training.batch_size, std::optional<std::int64_t>(128));
    // Two numbers, an operation, "=", a number of twice their digits, a begin and an end, with some room.
    otherwise<std::int64_t>("training.sequence_length", training.sequence_length, 4 * spec_.data.digits + 8);
    otherwise("training.learning_rate", training.learning_rate, 2e-3);
    otherwise<std::int64_t>("training.warmup_steps", training.warmup_steps, 60);
    otherwise("training.lr_scheduler", training.lr_scheduler, spec::RateSchedule::cosine);
    save_and_evaluate_every(400, 400);
    otherwise("training.save_total_limit", training.save_total_limit, std::optional<std::int64_t>(2));
  }

  void check_names() {
    if (!spec_.model.path)
      report("model.path", "no model is named", "-m MODEL: a folder, or a name that muster model list shows");
    if (!spec_.data.path)
      report("data.path", "no data is named",
             spec_.training.algorithm == spec::Algorithm::kto
                 ? "data.path=FILE: JSON lines with prompt, completion and label; or builtin:arithmetic"
             : spec::learns_from_pairs(spec_.training.algorithm)
                 ? "data.path=FILE: JSON lines with prompt, chosen and rejected; or builtin:arithmetic"
             : spec::samples_answers(spec_.training.algorithm)
                 ? "data.path=FILE: JSON lines with prompt, or messages, and perhaps answer; or builtin:arithmetic"
                 : "data.path=FILE: JSON lines with prompt and completion, messages, instruction and output, or text; or "
                   "builtin:arithmetic");
    if (spec_.data.path && spec_.data.path->starts_with("builtin:") && *spec_.data.path != data::arithmetic_name)
      report("data.path", fmt::format("data.path is {}", *spec_.data.path), "what is built in is builtin:arithmetic");
    if (spec_.model.tokenizer)
      report("model.tokenizer", "training uses the model's own tokenizer", "leave model.tokenizer out");
    for (const std::string& operation : spec_.data.operations)
      if (operation != "+" && operation != "-" && operation != "*")
        report("data.operations", fmt::format("data.operations holds \"{}\"", operation), "of +, - and *");
  }

  // Whether a rule asks for what the plan does anyway is known once the devices are (plan_question).
  void check_device_map() {
    if (!spec_.model.device_map || std::holds_alternative<spec::MapRule>(*spec_.model.device_map)) return;
    report("model.device_map", "a device map by module splits one model, and training gives each GPU a rank of its own",
           "leave the device map out: --strategy fsdp shards a model that does not fit one GPU");
  }

  void check_rewards() {
    const auto policy = spec_.policy_options();
    if (!policy) return;
    if (spec_.training.packing)
      report("training.packing", "sampled answers are not packed with others",
             "leave training.packing out: sequences lie side by side without padding in any case");
    if (!spec_.reward_options() && !spec_.environment.type)
      report("reward.functions", fmt::format("nothing says what an answer is worth, and {} learns from that",
                                             spec::write(spec_.training.algorithm)),
             "reward.functions=[exact] compares with the row's answer; [math] as mathematics; [program] asks a program of "
             "yours (docs/rewards.md)");
    if (spec_.training.batch_size.value_or(1) > policy->answers)
      report("training.batch_size",
             fmt::format("a step has {} answers, and a round {}", *spec_.training.batch_size, policy->answers),
             fmt::format("training.num_rollouts_per_iteration={} samples more of them, or take a smaller batch",
                         (*spec_.training.batch_size + policy->group - 1) / policy->group * policy->group));
  }

  void check_algorithm() {
    check_rewards();
    if (spec_.training.packing && spec::learns_from_preferences(spec_.training.algorithm))
      report("training.packing", "answers to one prompt stay together, and are not packed with others",
             "leave training.packing out: sequences lie side by side without padding in any case");
    if (spec_.model.packing() && !spec_.model.use_lora && spec_.model.adapter_folders.empty())
      report(spec_.model.load_in_4bit ? "model.load_in_4bit" : "model.load_in_8bit",
             fmt::format("weights in {} bits stay as they are in training", spec_.model.load_in_4bit ? 4 : 8),
             "model.use_lora=true trains low-rank adapters beside them");
    if (spec_.model.computed_type() == spec::DataType::float16 && spec_.training.mixed_precision == spec::MixedPrecision::off)
      report("model.dtype", "float16 weights alone lose small updates, and are not trained",
             "training.mixed_precision=fp16 keeps float32 masters and scales the loss");
    if (spec_.training.deterministic && state_type(spec_) == spec::ElementType::bfloat16)
      report(
          "training.deterministic",
          "training.deterministic needs float32 sums, and model.dtype=bfloat16 with training.mixed_precision=no keeps "
          "gradients in bfloat16",
          "training.mixed_precision=bf16 computes in bfloat16 with float32 masters and exact sums");
  }

  spec::ResolvedSpec resolved_;
  spec::RunSpec& spec_;
  std::vector<Problem> problems_;
};

}  // namespace

spec::ElementType state_type(const spec::RunSpec& spec) {
  const spec::TrainingSpec& training = spec.training;
  const bool mixed = training.fp16 || training.bf16 || training.mixed_precision != spec::MixedPrecision::off;
  const bool adapters = spec.model.use_lora || !spec.model.adapter_folders.empty();  // they are always stepped in float32
  return !mixed && !adapters && spec.model.dtype == spec::DataType::bfloat16 ? spec::ElementType::bfloat16
                                                                             : spec::ElementType::float32;
}

Result<spec::ResolvedSpec> settle_training_settings(spec::ResolvedSpec given) {
  return Settling(std::move(given)).settle();
}

}  // namespace muster::job

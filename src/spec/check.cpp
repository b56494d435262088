#include "spec/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "spec/check_model.hpp"
#include "spec/codec.hpp"
#include "spec/model/adapters/path_pattern.hpp"
#include "system/socket.hpp"

namespace muster::spec {
namespace {

Origin origin_of(const ResolvedSpec& resolved, const std::string& key) {
  const auto found = resolved.origins.find(key);
  return found == resolved.origins.end() ? Origin{} : found->second;
}

void overrule(const Schema& schema, ResolvedSpec& resolved, const std::string& loser, const std::string& winner) {
  const Origin loser_origin = origin_of(resolved, loser);
  resolved.notes.push_back(
      fmt::format("{} ({}) overrules {} ({})", winner, origin_of(resolved, winner).where, loser, loser_origin.where));
  Node fallback;
  fallback.kind = Node::Kind::scalar;
  fallback.text = schema.find(loser)->fallback;
  if (fallback.text == "[]" || fallback.text == "null") fallback.kind = Node::Kind::null;
  static_cast<void>(schema.find(loser)->read(resolved.spec, fallback));
  resolved.origins.erase(loser);
}

// The lower of two contradicting keys gives way.
void settle_pair(const Schema& schema, ResolvedSpec& resolved, const std::string& a, const std::string& b) {
  const Origin::Kind kind_a = origin_of(resolved, a).kind, kind_b = origin_of(resolved, b).kind;
  if (kind_a == Origin::Kind::built_in || kind_b == Origin::Kind::built_in || kind_a == kind_b) return;
  if (kind_a > kind_b)
    overrule(schema, resolved, b, a);
  else
    overrule(schema, resolved, a, b);
}

bool counts_disagree(const DistributedSpec& distributed) {
  return distributed.num_gpus && !distributed.gpu_ids.empty() &&
         static_cast<std::size_t>(*distributed.num_gpus) != distributed.gpu_ids.size();
}

bool splits_model(const ModelSpec& model) {
  if (!model.device_map) return false;
  const auto* rule = std::get_if<MapRule>(&*model.device_map);
  return rule == nullptr || *rule == MapRule::balanced || *rule == MapRule::balanced_low_0 ||
         *rule == MapRule::sequential;
}

std::int64_t gpus_asked_for(const DistributedSpec& distributed) {
  if (!distributed.gpu_ids.empty()) return std::ssize(distributed.gpu_ids);
  return distributed.num_gpus.value_or(1);
}

void find_preference_contradictions(const DpoSpec& dpo, const auto& report) {
  if (!dpo.loss_weights.empty() && dpo.loss_weights.size() != dpo.loss_type.size())
    report("dpo.loss_weights",
           fmt::format("has {} weights, and dpo.loss_type {} types", dpo.loss_weights.size(), dpo.loss_type.size()),
           "give each type a weight, or leave the weights out");
  const auto smooths = [](PairLoss kind) {
    return kind == PairLoss::sigmoid || kind == PairLoss::robust || kind == PairLoss::exo_pair;
  };
  if (dpo.label_smoothing > 0 && std::ranges::none_of(dpo.loss_type, smooths))
    report("dpo.label_smoothing", fmt::format("is {}, and dpo.loss_type {} takes none", dpo.label_smoothing,
                                              write(dpo.loss_type)),
           "leave it out, or take sigmoid, robust or exo_pair");
  if (dpo.label_smoothing == 0 && std::ranges::find(dpo.loss_type, PairLoss::exo_pair) != dpo.loss_type.end())
    report("dpo.loss_type", "has exo_pair, which needs dpo.label_smoothing above 0", "dpo.label_smoothing=0.001");
}

// The same said twice, in other words.
void find_schedule_contradictions(const TrainingSpec& training, const auto& report) {
  if (training.num_iterations && training.max_steps)
    report("training.num_iterations", fmt::format("is {}, and training.max_steps {}", *training.num_iterations, *training.max_steps),
           "keep one of the two");
  if (training.num_iterations && training.num_epochs)
    report("training.num_iterations", fmt::format("is {}, and training.num_epochs {}", *training.num_iterations, *training.num_epochs),
           "keep one of the two");
  if (training.eval_every && training.eval_steps)
    report("training.eval_every", fmt::format("is {}, and training.eval_steps {}", *training.eval_every, *training.eval_steps),
           "keep one of the two");
  if (training.save_every && training.save_steps)
    report("training.save_every", fmt::format("is {}, and training.save_steps {}", *training.save_every, *training.save_steps),
           "keep one of the two");
  if (training.off_by > 0 && !samples_answers(training.algorithm))
    report("training.off_by", fmt::format("is {}, and training.algorithm={} draws no answers", training.off_by, write(training.algorithm)),
           "leave it out");
}

void find_imitation_contradictions(const RunSpec& spec, const auto& report) {
  if (spec.sft.mode != SftMode::behavioral_cloning && spec.data.train_on == TrainedAnswers::last)
    report("sft.mode", fmt::format("is {}, and data.train_on=last leaves everything but the last answers out", write(spec.sft.mode)),
           "data.train_on=all");
  if (spec.sft.mode == SftMode::combined && spec.sft.bc_weight == 0 && spec.sft.world_model_weight == 0)
    report("sft.bc_weight", "is 0, and so is sft.world_model_weight: nothing would be learnt", "give one of them a weight");
}

void find_critic_contradictions(const RunSpec& spec, const PolicyOptions& policy, const auto& report) {
  const PpoSpec& ppo = spec.ppo;
  if (ppo.adaptive_kl_target && ppo.kl_coef == 0)
    report("ppo.adaptive_kl_target", "adapts ppo.kl_coef, which is 0 and stays so", "begin with ppo.kl_coef=0.05");
  if (const auto parts = ppo.num_mini_batches) {
    const auto& batch = spec.training.batch_size;
    if (batch && *batch != (policy.answers + *parts - 1) / *parts)
      report("ppo.num_mini_batches", fmt::format("is {}, and training.batch_size {}", *parts, *batch),
             "keep one of the two");
    if (*parts > policy.answers)
      report("ppo.num_mini_batches", fmt::format("is {}, and a round has {} answers", *parts, policy.answers),
             "take fewer, or sample more: training.num_rollouts_per_iteration");
  }
  if (ppo.critic_learning_rate && !ppo.critic)
    report("ppo.critic_learning_rate",
           "is set, and the critic is a head of the policy, which training.learning_rate trains",
           "leave it out, or name a model of its own: ppo.critic");
  if (ppo.target_kl && !spec.training.max_steps && spec.training.num_epochs)
    report("ppo.target_kl",
           fmt::format("is {}, so that how many steps the prompts give is not known beforehand", *ppo.target_kl),
           "training.max_steps in the place of training.num_epochs");
}

void find_policy_contradictions(const RunSpec& spec, const auto& report) {
  const GrpoSpec& grpo = spec.grpo;
  if (grpo.importance_sampling_level == RatioLevel::product)
    report("grpo.importance_sampling_level", "is product, which is rloo's", "take token or sequence");
  if (grpo.loss_type == PolicyLoss::luspo && grpo.importance_sampling_level != RatioLevel::sequence)
    report("grpo.loss_type", "is luspo, which compares whole sequences", "grpo.importance_sampling_level=sequence");
  if ((grpo.loss_type == PolicyLoss::cispo || grpo.loss_type == PolicyLoss::sapo) &&
      grpo.importance_sampling_level != RatioLevel::token)
    report("grpo.loss_type", fmt::format("is {}, which compares tokens", write(grpo.loss_type)),
           "grpo.importance_sampling_level=token");
  if (grpo.beta > 0 && grpo.importance_sampling_level != RatioLevel::token)
    report("grpo.beta", fmt::format("is {}, and compares tokens, where grpo.importance_sampling_level compares sequences",
                                    grpo.beta),
           "grpo.beta=0, or grpo.importance_sampling_level=token");
  const auto policy = spec.policy_options();
  if (!policy) return;
  if (policy->answers % policy->group != 0)
    report("training.num_rollouts_per_iteration",
           fmt::format("is {}, and every prompt gets {} answers", policy->answers, policy->group),
           fmt::format("take a multiple of {}, as {}", policy->group,
                       (policy->answers + policy->group - 1) / policy->group * policy->group));
  if (spec.training.algorithm == Algorithm::ppo) find_critic_contradictions(spec, *policy, report);
  if (policy->draws > 1 && !spec.training.max_steps && spec.training.num_epochs)
    report("grpo.max_draws", fmt::format("is {}, so that how many rounds the prompts give is not known beforehand", policy->draws),
           "training.max_steps in the place of training.num_epochs");
  if (policy->temperature == 0)
    report("generation.temperature", "is 0, and answers to one prompt would all be the same", "generation.temperature=1");
  if (spec.generation.repetition_penalty != 1)
    report("generation.repetition_penalty", "changes what a token's probability is from place to place",
           "leave it out; reward.functions=repetition makes repetition dearer");
  if (!spec.generation.stop.texts.empty())
    report("generation.stop", "ends answers by texts, and a policy learns to end them by a token",
           "leave it out, or name the token in generation.stop_tokens");
}

// Settings of a function that is not asked for change nothing, and one without what it needs cannot judge.
void find_reward_contradictions(const Schema& schema, const RunSpec& spec, const auto& report) {
  const RewardSpec& reward = spec.reward;
  const std::vector<RewardFunction> functions = reward.functions.value_or(std::vector<RewardFunction>());
  struct Needed {
    RewardFunction function;
    std::vector<std::string> keys;
  };
  const std::vector<Needed> settings{
      {RewardFunction::format, {"reward.format", "reward.format_match"}},
      {RewardFunction::length, {"reward.length_margin"}},
      {RewardFunction::repetition, {"reward.repetition_words"}},
      {RewardFunction::program, {"reward.program", "reward.program_seconds", "reward.program_restarts"}},
      {RewardFunction::code_tests,
       {"reward.code_scoring", "reward.code_seconds", "reward.code_at_once", "reward.code_python"}},
      {RewardFunction::model, {"reward.model"}},
  };
  const auto asked = [&](RewardFunction function) {
    return std::ranges::find(functions, function) != functions.end();
  };
  for (const auto& [function, keys] : settings)
    for (const std::string& key : keys) {
      const Field& field = *schema.find(key);
      if (!asked(function) && field.write(spec) != field.fallback)
        report(key, fmt::format("is set, and reward.functions has no {}", write(function)),
               fmt::format("add {} to reward.functions, or leave it out", write(function)));
    }
  if (asked(RewardFunction::format) && !reward.format)
    report("reward.functions", "has format, and reward.format is not set",
           R"(give the regular expression, as in reward.format='(?s)<think>.*</think>.*')");
  if (asked(RewardFunction::program) && reward.program.texts.empty())
    report("reward.functions", "has program, and reward.program is not set",
           "give the command that judges, as in reward.program='python3 judge.py'");
  if (asked(RewardFunction::model) && !reward.model)
    report("reward.functions", "has model, and reward.model is not set",
           "name the reward model, as in reward.model=FOLDER (training.algorithm=reward makes one)");
  if (reward.format)
    if (const auto pattern = PathPattern::compile(*reward.format); !pattern)
      report("reward.format", "cannot be read: " + pattern.error().what, "write a regular expression of PCRE2");

  std::set<RewardFunction> named;
  for (const RewardFunction function : functions)
    if (!named.insert(function).second)
      report("reward.functions", fmt::format("names {} twice", write(function)),
             "name it once; reward.weights says what it counts");
  if (reward.weights.empty()) return;
  if (reward.weights.size() != functions.size())
    report("reward.weights",
           fmt::format("has {} weights, and reward.functions {} functions", reward.weights.size(), functions.size()),
           "give each function a weight, or leave the weights out");
  if (std::ranges::all_of(reward.weights, [](double weight) { return weight == 0; }))
    report("reward.weights", "are all 0: no answer would be better than another", "give one of the functions a weight");
}

// Settings of an environment that is not asked for change nothing; an environment judges by itself.
void find_environment_contradictions(const Schema& schema, const RunSpec& spec, const auto& report) {
  using enum EnvironmentKind;
  const EnvironmentSpec& given = spec.environment;
  std::vector<EnvironmentKind> played;
  if (given.type) played.push_back(*given.type);
  for (const EvaluationEnvironment& one : given.evaluations.list) played.push_back(one.type);
  for (const Field& field : schema.fields()) {
    if (!is_setting_of_environments(field.key) || field.write(spec) == field.fallback) continue;
    const std::string& key = field.key;
    const bool is_read = std::ranges::any_of(played, [&](EnvironmentKind kind) { return is_setting_of(kind, key); });
    if (played.empty())
      report(key, "is set, and environment.type is not",
             "environment.type=code, math, tool, debate or program, or leave it out");
    else if (given.server && !is_read_of_servers(key))
      report(key, "is set, and environment.server has the environment", "leave it out, and give it to muster serve-environments");
    else if (!given.server && key == "environment.token_file")
      report(key, "is set, and environment.server is not", "leave it out, or name the server");
    else if (!given.server && !is_read)
      report(key, fmt::format("is set, and environment.type is {}", write(played.front())), "leave it out");
  }
  if (given.type && spec.reward.functions)
    report("reward.functions", fmt::format("is set, and environment.type={} judges by itself", write(*given.type)),
           "keep one of the two");
  if (given.type == tool && trim(given.tool_role).empty()) report("environment.tool_role", "is empty", "tool, or user");
  if (given.type == program && given.program.texts.empty() && !given.server)
    report("environment.type", "is program, and environment.program is not set",
           "give the command of the environment, as in environment.program='python3 environment.py'");
  if (!given.server) return;
  if (const auto endpoint = parse_endpoint(*given.server); !endpoint)
    report("environment.server", "is not an address: " + endpoint.error().what, endpoint.error().remedy);
}

}  // namespace

void settle_precedence(const Schema& schema, ResolvedSpec& resolved) {
  const DistributedSpec& distributed = resolved.spec.distributed;
  if (counts_disagree(distributed)) settle_pair(schema, resolved, "distributed.num_gpus", "distributed.gpu_ids");
  for (const char* key : {"distributed.num_gpus", "distributed.gpu_ids"})
    if (distributed.device == Device::cpu) settle_pair(schema, resolved, "distributed.device", key);
  if (distributed.enabled == false && gpus_asked_for(distributed) > 1)
    for (const char* key : {"distributed.num_gpus", "distributed.gpu_ids"})
      settle_pair(schema, resolved, "distributed.enabled", key);
  if (distributed.enabled == false && distributed.ranks.value_or(1) > 1)
    settle_pair(schema, resolved, "distributed.enabled", "distributed.ranks");
  if (distributed.enabled == false && distributed.num_nodes > 1)
    settle_pair(schema, resolved, "distributed.enabled", "distributed.num_nodes");
  settle_model_precedence(schema, resolved, [&](const std::string& loser, const std::string& winner) {
    overrule(schema, resolved, loser, winner);
  });
}

std::vector<Problem> find_contradictions(const Schema& schema, const ResolvedSpec& resolved) {
  const auto& [experiment, distributed, model, training, sft, dpo, simpo, orpo, kto, reward_model, grpo, rloo, ppo, reward, environment,
               generation, data, data_collection, algos, system, sweep] = resolved.spec;
  std::vector<Problem> problems;
  const auto report = [&](const std::string& key, std::string what, std::string remedy) {
    problems.push_back({origin_of(resolved, key).where, key + " " + std::move(what), std::move(remedy)});
  };

  if (experiment.name && (*experiment.name == "???" || experiment.name->find('/') != std::string::npos))
    report("experiment.name", fmt::format("is \"{}\"", *experiment.name), "give the run a name without slashes");

  std::set<std::string> seen;
  for (const std::string& id : distributed.gpu_ids)
    if (!seen.insert(id).second)
      report("distributed.gpu_ids", fmt::format("names GPU {} twice", id), "name each GPU once");
  if (counts_disagree(distributed))
    report("distributed.num_gpus",
           fmt::format("is {}, but distributed.gpu_ids names {}", *distributed.num_gpus, distributed.gpu_ids.size()),
           "give one of them, or make them agree");
  if (distributed.enabled == false && gpus_asked_for(distributed) > 1)
    report("distributed.enabled", fmt::format("is false, but {} GPUs are asked for", gpus_asked_for(distributed)),
           "remove it, or ask for one GPU");
  if (distributed.enabled == false && distributed.ranks.value_or(1) > 1)
    report("distributed.enabled", fmt::format("is false, but {} ranks are asked for", *distributed.ranks),
           "remove it, or ask for one rank");
  if (distributed.enabled == false && distributed.num_nodes > 1)
    report("distributed.enabled", fmt::format("is false, but {} hosts are asked for", distributed.num_nodes),
           "remove it, or ask for one host");
  if (distributed.device == Device::cpu && (distributed.num_gpus || !distributed.gpu_ids.empty()))
    report("distributed.device", "is cpu, but GPUs are asked for",
           "remove the GPUs, or the device; CPU processes are distributed.ranks");
  if (distributed.node_rank >= distributed.num_nodes)
    report("distributed.node_rank",
           fmt::format("is {}, but there are {} hosts", distributed.node_rank, distributed.num_nodes),
           "hosts count from 0 to num_nodes - 1");
  const bool sharded = distributed.strategy == Strategy::fsdp || distributed.strategy == Strategy::automatic;
  if (!sharded && distributed.fsdp_cpu_offload)
    report("distributed.fsdp_cpu_offload", fmt::format("is true, but the strategy is {}", write(distributed.strategy)),
           "set distributed.strategy: fsdp");
  if (!sharded && distributed.fsdp_sharding_strategy != ShardingStrategy::full_shard)
    report("distributed.fsdp_sharding_strategy",
           fmt::format("is set, but the strategy is {}", write(distributed.strategy)),
           "set distributed.strategy: fsdp");
  if (distributed.fsdp_group_size && distributed.fsdp_sharding_strategy != ShardingStrategy::hybrid_shard)
    report("distributed.fsdp_group_size",
           fmt::format("is {}, but fsdp_sharding_strategy is {}, which has no groups", *distributed.fsdp_group_size,
                       write(distributed.fsdp_sharding_strategy)),
           "set distributed.fsdp_sharding_strategy: hybrid_shard");

  if (splits_model(model) && (distributed.strategy == Strategy::ddp || distributed.strategy == Strategy::fsdp))
    report(
        "model.device_map",
        fmt::format("splits one model over the GPUs, but distributed.strategy {} gives every GPU a rank of its own",
                    write(distributed.strategy)),
        "keep one of the two: device_map for a model that does not fit one GPU, ddp or fsdp to train on all of them");
  if (model.auto_device_map && model.device_map && *model.device_map != DeviceMap{MapRule::automatic})
    report("model.auto_device_map", fmt::format("is true, but device_map is {}", write(*model.device_map)),
           "keep one of the two");
  find_model_contradictions(schema, resolved, report);
  if (training.fp16 && training.bf16)
    report("training.fp16", "is true, and so is training.bf16", "keep one of the two");

  find_schedule_contradictions(training, report);
  find_imitation_contradictions(resolved.spec, report);
  find_preference_contradictions(dpo, report);
  find_policy_contradictions(resolved.spec, report);
  find_reward_contradictions(schema, resolved.spec, report);
  find_environment_contradictions(schema, resolved.spec, report);

  // The number of ranks is not known when all visible GPUs are meant.
  const bool ranks_known = distributed.ranks || distributed.num_gpus || !distributed.gpu_ids.empty();
  if (ranks_known && training.batch_size && training.micro_batch_size && training.gradient_accumulation_steps) {
    const std::int64_t ranks = distributed.ranks.value_or(gpus_asked_for(distributed) * distributed.num_nodes);
    const std::int64_t product = *training.micro_batch_size * *training.gradient_accumulation_steps * ranks;
    if (product != *training.batch_size)
      report("training.batch_size",
             fmt::format("is {}, but micro_batch_size {} × gradient_accumulation_steps {} × {} ranks is {}",
                         *training.batch_size, *training.micro_batch_size, *training.gradient_accumulation_steps, ranks,
                         product),
             "leave one of them out");
  }
  return problems;
}

}  // namespace muster::spec

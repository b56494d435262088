// From a user's request to a training job that fits: everything that can be refused is refused here.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/count_of.hpp"
#include "base/text.hpp"
#include "chat/model_text.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "data/batch_schedule.hpp"
#include "host/device_choice.hpp"
#include "job/arithmetic_data.hpp"
#include "job/builtin_model.hpp"
#include "job/model_forms.hpp"
#include "job/model_fingerprint.hpp"
#include "job/question_file.hpp"
#include "job/train/critic_plan.hpp"
#include "job/train/halfway_model.hpp"
#include "job/train/micro_batch_cache.hpp"
#include "job/train/prompt_data.hpp"
#include "job/train/round_plan.hpp"
#include "job/train/train.hpp"
#include "job/train/train_resume.hpp"
#include "planning/plan_question.hpp"
#include "planning/plan_report.hpp"
#include "json/fields.hpp"
#include "planning/remedy_words.hpp"
#include "runs/run_details.hpp"
#include "spec/codec.hpp"
#include "spec/coded_states.hpp"
#include "spec/model/value_head_file.hpp"
#include "spec/reward_model_choice.hpp"
#include "system/allotted_cores.hpp"
#include "system/disk_space.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "wire/run_identity.hpp"

namespace muster::job {
namespace {

// Rows per pass on a CPU rank, where nothing else limits it: more gain nothing there.
constexpr std::int64_t usual_rows_on_cpu = 2048;
// Ranks whose peer is gone can no longer save; one that hangs is not waited for longer than this.
constexpr std::chrono::seconds grace_after_failure(5);
// How long to wait when a disk is full, always less than the other ranks wait for the one that waits.
constexpr std::chrono::milliseconds longest_disk_patience = std::chrono::minutes(1);
constexpr std::int64_t usual_batch = 8;  // sequences per optimizer step and rank, by default

bool is_builtin_job(const spec::RunSpec& spec) {
  return (is_builtin_model(*spec.model.path) || *spec.model.path == halfway_model_name) && spec.data.path == data::arithmetic_name;
}

// The type that is computed in.
spec::ElementType compute_type(const spec::RunSpec& spec, const host::ChosenDevices& devices) {
  const bool on_gpu = !devices.gpus.empty();
  if (spec.training.fp16 || spec.training.mixed_precision == spec::MixedPrecision::float16)
    return spec::ElementType::float16;
  if (spec.training.bf16 || spec.training.mixed_precision == spec::MixedPrecision::bfloat16)
    return spec::ElementType::bfloat16;
  if (spec.training.mixed_precision == spec::MixedPrecision::off)
    return spec.model.computed_type() == spec::DataType::bfloat16 ? spec::ElementType::bfloat16
                                                                  : spec::ElementType::float32;
  if (spec.model.computed_type() != spec::DataType::automatic) return host::element_type(spec.model.computed_type());
  if (!on_gpu) return spec::ElementType::float32;
  return devices.has_bfloat16 ? spec::ElementType::bfloat16 : spec::ElementType::float16;
}

spec::DataType data_type(spec::ElementType type) {
  if (type == spec::ElementType::bfloat16) return spec::DataType::bfloat16;
  return type == spec::ElementType::float16 ? spec::DataType::float16 : spec::DataType::float32;
}

std::string_view word(spec::ElementType type) {
  if (type == spec::ElementType::bfloat16) return "bfloat16";
  return type == spec::ElementType::float16 ? "float16" : "float32";
}

data::DataRequest data_request_of(const spec::RunSpec& spec, std::int64_t longest) {
  data::DataRequest request;
  request.path = *spec.data.path;
  request.evaluation = spec.data.eval_path;
  if (request.path == data::arithmetic_name && !request.evaluation && spec.data.held_out > 0) request.evaluation = request.path;
  request.arithmetic = arithmetic_settings(spec);
  request.sequence_length = longest;
  request.train_on = spec.data.train_on;
  if (spec::learns_from_pairs(spec.training.algorithm)) request.form = data::RowForm::preferences;
  if (spec.training.algorithm == spec::Algorithm::orpo) request.form = data::RowForm::whole_preferences;
  if (spec.training.algorithm == spec::Algorithm::kto) request.form = data::RowForm::judgements;
  if (spec.training.algorithm == spec::Algorithm::reward) request.form = data::RowForm::comparisons;
  return request;
}

// The held-out questions of builtin:arithmetic, which ranks answer; nothing for other data, or a model that gives no answers.
Result<std::optional<std::filesystem::path>> write_questions(const spec::RunSpec& spec,
                                                             const std::filesystem::path& cache) {
  const bool asks = spec.data.path == data::arithmetic_name && spec.data.held_out > 0 && !spec.reward_model_options();
  if (!asks) return std::optional<std::filesystem::path>();
  const auto questions = held_out_questions(spec);
  if (!questions) return questions.error();
  auto path = keep_questions(*questions, cache);
  if (!path) return path.error();
  return std::optional(std::move(*path));
}

// One optimizer step's sequences: over all ranks, and per pass.
struct BatchSizes {
  std::int64_t all = 0;
  std::optional<std::int64_t> pass;
  std::optional<std::int64_t> passes;
};

// The nearest batch that ranks can share evenly; of two equally near, the larger.
std::int64_t shared_evenly(std::int64_t batch, std::int64_t ranks) {
  return std::max<std::int64_t>((batch + ranks / 2) / ranks, 1) * ranks;
}

// is_given: the user named training.batch_size. A job's own batch size follows the number of ranks; of sampled answers it
// is a whole round, whatever they are.
Result<BatchSizes> batch_sizes(const spec::RunSpec& spec, bool is_given, std::int64_t ranks) {
  const spec::TrainingSpec& training = spec.training;
  BatchSizes sizes{0, training.micro_batch_size, training.gradient_accumulation_steps};
  if (const auto policy = spec.policy_options(); policy && !(sizes.pass && sizes.passes)) {
    sizes.all = training.batch_size.value_or(policy->answers);
    return sizes;
  }
  const bool both = sizes.pass && sizes.passes;
  const std::int64_t product = sizes.pass.value_or(usual_batch) * sizes.passes.value_or(1) * ranks;
  sizes.all = training.batch_size.value_or(product);
  if (!is_given) sizes.all = shared_evenly(sizes.all, ranks);
  if (both && sizes.all != product)
    return Error{Error::Kind::bad_input,
                 fmt::format("training.batch_size is {}, but micro_batch_size {} × gradient_accumulation_steps {} × {} "
                             "ranks is {}",
                             sizes.all, *sizes.pass, *sizes.passes, ranks, product),
                 "leave one of them out"};
  return sizes;
}

Result<plan::Question> ask_for_training(host::Host& host, spec::RunSpec settings, const host::ChosenDevices& chosen,
                                        const std::filesystem::path& model, spec::ElementType compute, const BatchSizes& sizes) {
  const bool narrow = state_type(settings) == spec::ElementType::bfloat16;
  const bool samples = spec::samples_answers(settings.training.algorithm);
  if (settings.ppo.critic == settings.model.path) settings.ppo.critic = model.string();
  settings.model.path = model.string();
  if (settings.model.use_lora || !settings.model.adapter_folders.empty()) {
    // Frozen weights are held in the type that is computed in.
    settings.model.dtype = data_type(compute);
    settings.training.mixed_precision = spec::MixedPrecision::off;
  } else {
    settings.model.dtype = narrow ? spec::DataType::bfloat16 : spec::DataType::float32;
    settings.training.mixed_precision = narrow || compute == spec::ElementType::float32 ? spec::MixedPrecision::off
                                        : compute == spec::ElementType::bfloat16        ? spec::MixedPrecision::bfloat16
                                                                                        : spec::MixedPrecision::float16;
  }
  settings.training.fp16 = settings.training.bf16 = false;
  planning::PlanRequest request;
  request.spec = std::move(settings);
  request.work = plan::Work::training;
  auto question = ask(host, std::move(request), chosen);
  if (!question) return question.error();
  if (chosen.ranks != std::ssize(chosen.gpus)) question->ranks = chosen.ranks;
  // Sampled answers that nothing is learnt from are left out, and ranks share what is there.
  const std::int64_t sharing = chosen.ranks * question->hosts * sizes.pass.value_or(1) * sizes.passes.value_or(1);
  question->batch = samples ? (sizes.all + sharing - 1) / sharing * sharing : sizes.all;
  question->micro_batch = sizes.pass;
  question->accumulation = sizes.passes;
  question->workload.sequence = std::min(question->workload.sequence, question->model->config.positions);
  if (question->devices.empty() && !sizes.pass && !sizes.passes) {
    const std::int64_t per_rank = std::max<std::int64_t>(sizes.all / chosen.ranks / question->hosts, 1);
    const std::int64_t rows = question->workload.sequence * question->workload.together;
    std::int64_t pass = std::clamp<std::int64_t>(usual_rows_on_cpu / rows, 1, per_rank);
    while (per_rank % pass != 0) --pass;
    question->micro_batch = pass;
  }
  return question;
}

// Optimizer steps of passes over prepared data.
Result<std::int64_t> steps_of_passes(const spec::RunSpec& spec, const data::PreparedData& data, std::int64_t batch,
                                     std::int64_t longest, std::int64_t passes) {
  const auto dataset = data::Dataset::open(data.training.path, data::Verification::structure);
  if (!dataset) return dataset.error();
  data::BatchSchedule schedule(dataset->lengths(),
                               {static_cast<std::uint64_t>(spec.experiment.seed), true, spec.training.packing, longest,
                                spec::samples_together(spec.training.algorithm)},
                               batch);
  return schedule.steps_of(passes);
}

// A number of steps: as requested, or as many as the passes over the data, or the rounds, have.
Result<std::int64_t> step_count(const spec::RunSpec& spec, const data::PreparedData& data, std::int64_t batch,
                                std::int64_t longest) {
  const spec::TrainingSpec& training = spec.training;
  if (training.max_steps && training.num_epochs)
    return Error{Error::Kind::bad_input, "training.max_steps is given, and training.num_epochs", "keep one of the two"};
  if (training.max_steps) return *training.max_steps;
  const auto policy = spec.policy_options();
  const std::int64_t prompts = data.training.counts.samples;
  if (policy && training.num_iterations) return steps_of_rounds(*policy, prompts, batch, *training.num_iterations);
  const std::int64_t passes = training.num_epochs.value_or(training.num_iterations.value_or(1));
  if (policy) return policy_steps(*policy, prompts, batch, passes);
  return steps_of_passes(spec, data, batch, longest, passes);
}

// Where evaluations and checkpoints are told in rounds or passes.
Result<void> count_periods(wire::TrainTask& task, const spec::RunSpec& spec, const data::PreparedData& data,
                           std::int64_t longest) {
  const spec::TrainingSpec& training = spec.training;
  if (!training.eval_every && !training.save_every) return {};
  const auto policy = spec.policy_options();
  const auto steps = policy ? Result<std::int64_t>(updates_of_round(*policy, task.batch_size))
                            : steps_of_passes(spec, data, task.batch_size, longest, 1);
  if (!steps) return steps.error();
  if (training.eval_every) task.evaluation.every = *training.eval_every * *steps;
  if (training.save_every) task.save_every = *training.save_every * *steps;
  return {};
}

wire::ShardingOptions sharding_of(const plan::Layout& layout) {
  if (layout.scheme != plan::Scheme::fsdp) return {};
  const bool grouped = layout.sharding == spec::ShardingStrategy::hybrid_shard;
  return {layout.sharding, grouped ? layout.shard_group : 1, layout.offload};
}

wire::TrainTask task_of(const spec::RunSpec& spec, const plan::Plan& plan, const plan::Question& question,
                        const std::filesystem::path& model, const data::PreparedData& data, std::int64_t steps,
                        std::int64_t batch) {
  const auto& training = spec.training;
  wire::TrainTask task;
  task.model = model.string();
  task.random_weights = spec.model.init == spec::WeightSource::random;
  task.attention = spec.system.attn_impl;
  task.deterministic = spec.system.deterministic || training.deterministic;
  task.exact = training.deterministic;
  task.recompute = training.gradient_checkpointing;
  task.sharding = sharding_of(plan.layout);
  task.data = data.training.path.string();
  task.algorithm = training.algorithm;
  task.preferences = spec.preference_options();
  task.reward_model = spec.reward_model_options();
  task.fresh_head = question.model->fresh_head;
  task.policy = spec.policy_options();
  task.critic = spec.critic_options();
  if (task.policy) task.reward = spec.reward_options();
  if (task.policy) task.environment = spec.environment_options();
  task.packing = training.packing;
  task.sequence_length = question.workload.sequence;
  task.steps = steps;
  task.batch_size = batch;
  task.micro_batch = plan.workload.micro_batch;
  task.loader_threads = training.dataloader_num_workers;
  task.pinned = training.dataloader_pin_memory;
  task.optimizer = {
      training.optimizer == spec::OptimizerKind::adamw_fused ? spec::OptimizerKind::adamw : training.optimizer,
      training.learning_rate,
      training.lr_scheduler,
      training.warmup_steps,
      training.decay_steps.value_or(std::max<std::int64_t>(steps / 10, 1)),
      training.weight_decay,
      training.adam_beta1,
      training.adam_beta2,
      training.adam_epsilon,
      training.momentum,
      training.max_grad_norm};
  if (data.evaluation) task.evaluation.data = data.evaluation->path.string();
  task.evaluation.every = training.eval_steps;
  task.save_every = training.save_steps;
  task.keep = training.save_total_limit;
  task.save_at_end = training.save_at_end;
  task.clear_cache_every = spec.system.clear_cache_interval;
  return task;
}

// Beside the adapter that is trained on, else beside the model.
Result<std::optional<std::string>> find_value_head(const wire::TrainTask& task, const spec::ModelDescription& model) {
  std::vector<std::filesystem::path> folders;
  if (task.adapter) folders.emplace_back(*task.adapter);
  const auto files = spec::find_model(task.model, spec::model_search_from_environment());
  if (!files) return files.error();
  folders.push_back(std::filesystem::is_directory(*files) ? *files : files->parent_path());
  auto found = spec::find_value_head(folders, model);
  if (!found) return found.error();
  return *found ? std::optional((*found)->string()) : std::nullopt;
}

std::string digest_of(const std::string& file) {
  const auto bytes = read_file(file);
  Sha256 digest;
  if (bytes) digest.add(std::as_bytes(std::span(*bytes)));
  return digest.finish();
}

// A hash of everything that the numbers of a run follow from: a checkpoint with another one is not resumed. How the
// state is laid over ranks is not part of it, nor what is computed twice; the number of steps may grow.
std::string identity_of(const wire::TrainTask& task, const spec::RunSpec& spec) {
  wire::TrainTask counted = task;
  if (!spec.training.decay_steps) counted.optimizer.decay_steps = 0;  // it follows from the number of steps
  std::string text = fmt::format("{}\n{}\n{}\n{}", wire::identity_text(counted), spec.experiment.seed,
                                       model_fingerprint(task.model).dump(),
                                       std::filesystem::path(task.data).filename().string());
  if (task.adapter) text += "\n" + model_fingerprint(*task.adapter).dump();
  if (task.value_head) text += "\nvalues of " + digest_of(*task.value_head);
  if (task.critic_model) text += "\ncritic " + model_fingerprint(*task.critic_model).dump();
  if (task.judge) text += "\njudged by " + model_fingerprint(*task.judge).dump();
  Sha256 digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.finish();
}

// Where the scores of prepared data are kept that the weights give it which a run begins with: beside it, under a name that
// follows from all that their bits follow from.
std::string reference_file(const std::string& data, const wire::TrainTask& task, const spec::RunSpec& spec, bool on_gpu) {
  constexpr int scoring_rules = 1;
  std::string text = fmt::format("scores {}\n{}\n{} {} {} {}\n", scoring_rules, model_fingerprint(task.model).dump(),
                                 word(task.compute), spec::write(task.attention), on_gpu, task.deterministic);
  if (task.random_weights) text += fmt::format("random {}\n", spec.experiment.seed);
  if (task.adapter) text += model_fingerprint(*task.adapter).dump() + "\n";
  if (task.weights) text += print_fields(*task.weights) + "\n";
  Sha256 digest;
  digest.add(std::as_bytes(std::span(text)));
  return fmt::format("{}.{}.scores", data, digest.finish().substr(0, 20));
}

void name_reference(wire::TrainTask& task, const spec::RunSpec& spec, bool on_gpu) {
  if (!spec::has_reference(task.algorithm) || task.preferences->reference_free) return;
  task.reference = reference_file(task.data, task, spec, on_gpu);
  if (task.evaluation.data) task.evaluation.reference = reference_file(*task.evaluation.data, task, spec, on_gpu);
}

// As spec.yaml has them: with the batch that is used.
std::string settings_text(spec::ResolvedSpec settings, std::int64_t batch) {
  if (settings.spec.training.batch_size) settings.spec.training.batch_size = batch;
  return print_configuration(spec::Schema(), settings);
}

// What a user's rows give.
std::string_view unit_of(spec::Algorithm algorithm) {
  if (spec::learns_from_pairs(algorithm)) return "pair";
  return algorithm == spec::Algorithm::kto ? "answer" : "sample";
}

// Which part of conversations is trained on, and how much that is.
std::string conversation_note(const data::SampleCounts& counts, spec::TrainedAnswers which) {
  std::string note = fmt::format("{} conversation{}: {} trained on (data.train_on={}), {} of {} tokens",
                                 counts.conversations, counts.conversations == 1 ? "" : "s",
                                 which == spec::TrainedAnswers::all ? "every turn of the assistant is"
                                                                    : "only the last turn of the assistant is",
                                 spec::write(which), counts.trained_tokens, counts.tokens);
  if (counts.split > 0)
    note += fmt::format(
        "; {} became one sample for each answer, because the chat template writes earlier turns differently once "
        "others follow",
        counts.split == counts.conversations ? "each" : fmt::format("{} of them", counts.split));
  return note;
}

std::vector<std::string> data_notes(const data::PreparedData& data, const spec::RunSpec& spec) {
  std::vector<std::string> notes;
  const data::SampleCounts& counts = data.training.counts;
  const std::int64_t together = spec::samples_together(spec.training.algorithm);
  const std::string_view unit = unit_of(spec.training.algorithm);
  if (together == 1 && counts.conversations > 0) notes.push_back(conversation_note(counts, spec.data.train_on));
  if (counts.cut > 0)
    notes.push_back(fmt::format("{} of {} {} longer than training.sequence_length and lost {} end", counts.cut,
                                count_of(counts.samples / together, unit), counts.cut == 1 ? "is" : "are",
                                counts.cut == 1 ? "its" : "their"));
  if (counts.dropped > 0)
    notes.push_back(fmt::format("{} left out: {} training.sequence_length", count_of(counts.dropped, unit),
                                spec.reward_model_options() ? "one of its texts is longer than"
                                                            : "no token to train on within"));
  return notes;
}

// What is trained by predicts tokens, or scores.
Result<void> check_head(const spec::RunSpec& spec, const spec::ModelDescription& model) {
  return spec.reward_model_options() ? spec::check_one_score(model) : check_predicts_tokens(model);
}

// Room for everything that the run writes, on the disk of its folder. A plan for the GPUs of another
// machine says nothing about this one's disk.
DiskNeed disk_of(const host::Host& host, const TrainPlan& plan, const std::filesystem::path& output) {
  const spec::ModelShape& shape = plan.question.model->shape;
  ByteCount checkpoint = checkpoint_size(shape, plan.task()), exported = export_size(shape, plan.task());
  if (plan.question.critic) {
    const wire::TrainTask critic = files_of_critic(plan.task());
    checkpoint = checkpoint + checkpoint_size(plan.question.critic->shape, critic);
    exported = exported + export_size(plan.question.critic->shape, critic);
  }
  DiskNeed need = disk_need(plan.task(), checkpoint, exported);
  need.folder = plan.resumes.value_or(output);
  if (!host.sources().inventory_file || !plan.job.selection) need.free = free_space(need.folder);
  if (plan.resumes)
    for (const auto& found : checkpoint::find_checkpoints(*plan.resumes / "checkpoints"))
      need.present = need.present + runs::bytes_in(found.path);
  return need;
}

// A refusal names only what this command can change.
void keep_own_remedies(plan::Plan& plan) {
  if (!plan.refusal) return;
  std::erase_if(plan.refusal->remedies, [](const plan::Remedy& remedy) {
    return !planning::remedy_words(spec::Command::train, remedy.settings);
  });
}

}  // namespace

Result<TrainPlan> plan_training(host::Host& host, const TrainRequest& request, const data::OnPreparation& progress) {
  const spec::RunSpec& spec = request.settings.spec;
  auto devices = host::choose_devices(host, spec.distributed, std::numeric_limits<std::int64_t>::max(), request.purpose);
  if (!devices) return devices.error();
  if (devices->gpus.empty() && !spec.distributed.ranks && !host::is_one_process(spec.distributed) && is_builtin_job(spec))
    devices->ranks = std::min(2, allotted_cores());
  const spec::ElementType compute = compute_type(spec, *devices);
  const std::filesystem::path cache = data::cache_folder_from_environment();
  Result<std::filesystem::path> model = std::filesystem::path(*spec.model.path);
  if (is_builtin_model(*spec.model.path)) model = builtin_model_folder(cache, *spec.model.path);
  if (*spec.model.path == halfway_model_name) model = halfway_model_folder(cache);
  if (!model) return model.error();
  const std::int64_t hosts = spec.distributed.num_nodes;
  const bool batch_is_given = request.settings.origins.contains("training.batch_size");
  const auto sizes = batch_sizes(spec, batch_is_given, devices->ranks * hosts);
  if (!sizes) return sizes.error();

  TrainPlan plan;
  auto question = ask_for_training(host, spec, *devices, *model, compute, *sizes);
  if (!question) return question.error();
  plan.question = std::move(*question);
  if (auto checked = check_weights(plan.question, spec.model,
                                   "name the folder that has model.safetensors; model.init=random begins from nothing");
      !checked)
    return checked.error();
  if (auto checked = check_head(spec, *plan.question.model); !checked) return checked.error();
  auto judge = spec::choose_reward_model(spec, spec::model_search_from_environment());
  if (!judge) return judge.error();
  auto weights = asked_form(spec.model, plan.question.model->shape);
  if (!weights) return weights.error();
  auto adapters = trained_adapters(spec.model, plan.question.model->shape);
  if (!adapters) return adapters.error();
  if (*adapters && spec.critic_options() && !spec.ppo.critic) (*adapters)->saved_modules.emplace_back("v_head");  // it may begin from random numbers
  if (*adapters)
    if (auto counted = count_adapters(plan.question, {&**adapters, 1}); !counted) return counted.error();
  auto made = plan::make_plan(plan.question);
  if (!made) return planning::in_words_of(spec::Command::train, made.error());
  plan.plan = std::move(*made);
  planning::add_phases_of_rounds(spec, plan.question, plan.plan);
  keep_own_remedies(plan.plan);
  const bool narrow = state_type(spec) == spec::ElementType::bfloat16;
  plan.plan.reasons.push_back(*adapters ? fmt::format("adapters in float32 beside weights in {}", word(compute))
                              : narrow  ? "parameters, gradients and optimizer in bfloat16, without float32 masters"
                                        : fmt::format("computed in {}, with float32 masters", word(compute)));
  if (spec.training.optimizer == spec::OptimizerKind::adamw_8bit)
    plan.plan.reasons.push_back(
        fmt::format("the optimizer's moments in 8 bits, but for embeddings and tensors of fewer than {} elements",
                    spec::least_coded_elements));
  plan.notes = devices->notes;
  if (request.purpose == host::Purpose::plan)
    plan.plan.reasons.insert(plan.plan.reasons.end(), devices->notes.begin(), devices->notes.end());
  if (!plan.plan.fits()) return plan;

  const auto text = chat::read_model_text(model->string(), spec::model_search_from_environment());
  if (!text) return text.error();
  const std::int64_t longest = plan.question.workload.sequence;
  std::optional<std::filesystem::path> eval_questions;
  if (spec::samples_answers(spec.training.algorithm)) {
    auto data = prepare_prompts(spec, *judge, *text, cache, longest);
    if (!data) return data.error();
    plan.data.training = std::move(data->prompts);
    eval_questions = std::move(data->questions);
  } else {
    auto data = data::prepare_data(data_request_of(spec, longest), *text, cache, allotted_cores(), progress);
    if (!data) return data.error();
    plan.data = std::move(*data);
  }
  const auto steps = step_count(spec, plan.data, sizes->all, longest);
  if (!steps) return steps.error();

  wire::TrainTask task = task_of(spec, plan.plan, plan.question, *model, plan.data, *steps, sizes->all);
  task.compute = compute;
  task.state = state_type(spec);
  task.adapters = std::move(*adapters);
  task.adapter = only_adapter(spec.model);
  task.weights = std::move(*weights);
  if (auto taken = take_critic(task, spec, plan.question, *text); !taken) return taken.error();
  if (task.critic && !task.critic_model) {
    auto head = find_value_head(task, *plan.question.model);
    if (!head) return head.error();
    task.value_head = std::move(*head);
  }
  if (*judge) {
    task.judge = (*judge)->model;
    task.judge_weights = (*judge)->weights;
  }
  task.saving_ranks = devices->ranks;
  if (auto counted = count_periods(task, spec, plan.data, longest); !counted) return counted.error();
  task.identity = identity_of(task, spec);
  name_reference(task, spec, !devices->gpus.empty());
  for (std::string& note : data_notes(plan.data, spec)) plan.notes.push_back(std::move(note));
  if (spec.training.batch_size.value_or(sizes->all) != sizes->all)
    plan.notes.push_back(fmt::format("the batch has {} {}s instead of {}, so that {} ranks can share it evenly",
                                     sizes->all, plan::unit_word(plan.question.workload), *spec.training.batch_size,
                                     devices->ranks * hosts));
  if (!devices->gpus.empty() && !sizes->pass && !sizes->passes) begin_with_known_pass(KnownPasses(cache), plan, task);
  plan.job.name = "train";
  plan.job.ranks = devices->ranks;
  if (hosts > 1)
    plan.job.hosts = JobHosts{static_cast<int>(hosts), static_cast<int>(spec.distributed.node_rank),
                              spec.distributed.master_addr.value_or("127.0.0.1"),
                              static_cast<std::uint16_t>(spec.distributed.master_port.value_or(29500))};
  else
    plan.job.store = JobStore{spec.distributed.master_addr, spec.distributed.master_port};
  plan.job.grace = std::chrono::minutes(10);  // ranks that are asked to end save first
  plan.job.grace_after_failure = grace_after_failure;
  plan.job.backend = spec.distributed.backend;
  plan.job.assignment.task = std::move(task);
  plan.job.assignment.timeout =
      spec.distributed.watchdog_seconds
          ? std::chrono::milliseconds(std::chrono::seconds(*spec.distributed.watchdog_seconds))
          : std::chrono::milliseconds(std::chrono::minutes(spec.distributed.timeout_minutes));
  plan.job.assignment.seed = static_cast<std::uint64_t>(spec.experiment.seed);
  if (plan.task().policy) {
    std::get<wire::TrainTask>(plan.job.assignment.task).sampled_at_once = plan.plan.side_by_side.value_or(1);
    plan.rounds = round_plan(plan);
    plan.plan.reasons.push_back(round_words(*plan.rounds));
  }
  std::get<wire::TrainTask>(plan.job.assignment.task).disk_patience =
      std::min(longest_disk_patience, plan.job.assignment.timeout / 2);
  if (!devices->gpus.empty()) {
    plan.job.selection.emplace();
    plan.job.selection->ids.assign(devices->gpus.begin(), devices->gpus.end());
  }
  if (auto checked = check_backend(plan.job); !checked) return checked.error();
  plan.device = device_words(plan.plan, static_cast<std::size_t>(devices->ranks), "one CPU rank");
  if (spec.distributed.find_unused_parameters)
    plan.notes.emplace_back(
        "distributed.find_unused_parameters changes nothing: every gradient is summed over the ranks, also that of a "
        "parameter that a step did not use");
  if (narrow)
    plan.notes.push_back(
        "parameters and optimizer in bfloat16: a step that changes a weight by less than about 1/500 of it is lost");
  plan.spec_text = settings_text(request.settings, sizes->all);
  if (const auto questions = write_questions(spec, cache); !questions)
    return questions.error();
  else if (*questions)
    eval_questions = *questions;
  if (eval_questions)
    std::get<wire::TrainTask>(plan.job.assignment.task).evaluation.questions = eval_questions->string();
  // The run's folder is host 0's.
  if (spec.distributed.node_rank > 0) return plan;
  if (auto found = find_run_to_resume(request.settings, plan); !found) return found.error();
  plan.disk = disk_of(host, plan, spec.experiment.output);
  return plan;
}

std::string training_command(const std::vector<plan::SettingChange>& changes) {
  return planning::remedy_command(spec::Command::train, changes);
}

std::string train_plan_text(const TrainPlan& plan, bool colour) {
  std::string text = planning::plan_text(plan.question, plan.plan, training_command, colour);
  if (plan.disk) text += disk_line(*plan.disk) + "\n";
  return text;
}

std::string train_plan_json(const TrainPlan& plan) {
  const std::string text = planning::plan_json(plan.question, plan.plan, training_command);
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) return text;
  if (plan.disk) json["disk"] = disk_json(*plan.disk);
  if (plan.rounds) json["rounds"] = to_json(*plan.rounds);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Error refusal_of(const TrainPlan& plan) {
  if (!plan.plan.refusal) return disk_refusal(*plan.disk, plan.task());
  const plan::Refusal& refusal = *plan.plan.refusal;
  std::vector<std::string> remedies;
  for (const plan::Remedy& remedy : refusal.remedies)
    remedies.push_back(fmt::format("{} ({})", training_command(remedy.settings), remedy.change));
  return {Error::Kind::refused, refusal.reason,
          remedies.empty() ? "a smaller model, or devices with more memory" : join(remedies, "; ")};
}

}  // namespace muster::job

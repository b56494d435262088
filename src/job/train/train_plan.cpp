// From a user's request to a training job that fits: everything that can be refused is refused here.
#include <fmt/format.h>

#include <algorithm>

#include "chat/model_text.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "host/device_choice.hpp"
#include "job/arithmetic_data.hpp"
#include "job/builtin_model.hpp"
#include "job/model_forms.hpp"
#include "job/question_file.hpp"
#include "job/train/batch_sizes.hpp"
#include "job/train/critic_plan.hpp"
#include "job/train/data_notes.hpp"
#include "job/train/evaluated_episodes.hpp"
#include "job/train/halfway_model.hpp"
#include "job/train/micro_batch_cache.hpp"
#include "job/train/prompt_data.hpp"
#include "job/train/round_plan.hpp"
#include "job/train/step_count.hpp"
#include "job/train/task_identity.hpp"
#include "job/train/task_settings.hpp"
#include "job/train/train.hpp"
#include "job/train/train_question.hpp"
#include "job/train/train_resume.hpp"
#include "planning/plan_question.hpp"
#include "planning/remedy_words.hpp"
#include "runs/run_details.hpp"
#include "spec/coded_states.hpp"
#include "spec/reward_model_choice.hpp"
#include "system/allotted_cores.hpp"
#include "system/disk_space.hpp"

namespace muster::job {
namespace {

// Ranks whose peer is gone can no longer save; one that hangs is not waited for longer than this.
constexpr std::chrono::seconds grace_after_failure(5);
// How long to wait when a disk is full, always less than the other ranks wait for the one that waits.
constexpr std::chrono::milliseconds longest_disk_patience = std::chrono::minutes(1);

bool is_builtin_job(const spec::RunSpec& spec) {
  return (is_builtin_model(*spec.model.path) || *spec.model.path == halfway_model_name) && spec.data.path == data::arithmetic_name;
}

data::DataRequest data_request_of(const spec::RunSpec& spec, std::int64_t longest) {
  data::DataRequest request;
  request.path = *spec.data.path;
  request.evaluation = spec.data.eval_path;
  if (request.path == data::arithmetic_name && !request.evaluation && spec.data.held_out > 0) request.evaluation = request.path;
  request.arithmetic = arithmetic_settings(spec);
  request.sequence_length = longest;
  request.train_on = spec.data.train_on;
  if (spec.training.algorithm == spec::Algorithm::sft) {
    request.mode = spec.sft.mode;
    request.trajectories = spec.sft.trajectories();
  }
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

// As spec.yaml has them: with the batch that is used.
std::string settings_text(spec::ResolvedSpec settings, std::int64_t batch) {
  if (settings.spec.training.batch_size) settings.spec.training.batch_size = batch;
  return print_configuration(spec::Schema(), settings);
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

// The folder, file or name that the planner and ranks read; what is built in is made.
Result<std::filesystem::path> model_of(const spec::RunSpec& spec, const std::filesystem::path& cache) {
  if (is_builtin_model(*spec.model.path)) return builtin_model_folder(cache, *spec.model.path);
  if (*spec.model.path == halfway_model_name) return halfway_model_folder(cache);
  return std::filesystem::path(*spec.model.path);
}

// In which form the weights are, and what is trained beside them.
struct TrainedForms {
  std::optional<spec::WeightOptions> weights;
  std::optional<spec::AdapterOptions> adapters;
};

// The model fits what is asked of it.
Result<TrainedForms> check_forms(const spec::RunSpec& spec, plan::Question& question) {
  if (auto checked = check_weights(question, spec.model,
                                   "name the folder that has model.safetensors; model.init=random begins from nothing");
      !checked)
    return checked.error();
  if (auto checked = check_head(spec, *question.model); !checked) return checked.error();
  auto weights = asked_form(spec.model, question.model->shape);
  if (!weights) return weights.error();
  auto adapters = trained_adapters(spec.model, question.model->shape);
  if (!adapters) return adapters.error();
  const bool has_value_head = spec.critic_options() && !spec.ppo.critic;
  if (*adapters && has_value_head) (*adapters)->saved_modules.emplace_back("v_head");  // it may begin from random numbers
  if (*adapters)
    if (auto counted = count_adapters(question, {&**adapters, 1}); !counted) return counted.error();
  return TrainedForms{std::move(*weights), std::move(*adapters)};
}

// In which types parameters, gradients and moments are.
std::vector<std::string> type_reasons(const spec::RunSpec& spec, spec::ElementType compute, bool has_adapters) {
  const bool narrow = state_type(spec) == spec::ElementType::bfloat16;
  std::vector<std::string> reasons;
  reasons.push_back(has_adapters ? fmt::format("adapters in float32 beside weights in {}", word(compute))
                    : narrow     ? "parameters, gradients and optimizer in bfloat16, without float32 masters"
                                 : fmt::format("computed in {}, with float32 masters", word(compute)));
  if (spec.training.optimizer == spec::OptimizerKind::adamw_8bit)
    reasons.push_back(fmt::format("the optimizer's moments in 8 bits, but for embeddings and tensors of fewer than {} elements",
                                  spec::least_coded_elements));
  return reasons;
}

// The memory that it takes, or a refusal.
Result<void> plan_memory(const spec::RunSpec& spec, const TrainedForms& forms, spec::ElementType compute, TrainPlan& plan) {
  auto made = plan::make_plan(plan.question);
  if (!made) return planning::in_words_of(spec::Command::train, made.error());
  plan.plan = std::move(*made);
  planning::add_phases_of_rounds(spec, plan.question, plan.plan);
  keep_own_remedies(plan.plan);
  for (std::string& reason : type_reasons(spec, compute, forms.adapters.has_value()))
    plan.plan.reasons.push_back(std::move(reason));
  return {};
}

// What is trained on, and the questions that evaluations answer.
struct TrainingData {
  chat::ModelText text;  // the model's
  data::PreparedData data;
  std::optional<std::filesystem::path> questions;
  EvaluatedEpisodes episodes;
};

Result<TrainingData> read_data(const spec::RunSpec& spec, const std::optional<spec::RewardModelChoice>& judge,
                               const std::filesystem::path& model, const std::filesystem::path& cache,
                               std::int64_t longest, const data::OnPreparation& progress) {
  auto text = chat::read_model_text(model.string(), spec::model_search_from_environment());
  if (!text) return text.error();
  TrainingData found{std::move(*text), {}, {}, {}};
  if (spec::samples_answers(spec.training.algorithm)) {
    auto data = prepare_prompts(spec, judge, found.text, cache, longest);
    if (!data) return data.error();
    found.data.training = std::move(data->prompts);
    found.questions = std::move(data->questions);
  } else {
    auto data = data::prepare_data(data_request_of(spec, longest), found.text, cache, allotted_cores(), progress);
    if (!data) return data.error();
    found.data = std::move(*data);
  }
  auto questions = write_questions(spec, cache);
  if (!questions) return questions.error();
  if (*questions) found.questions = std::move(*questions);
  auto episodes = prepare_episodes(spec, found.text, cache, longest);
  if (!episodes) return episodes.error();
  found.episodes = std::move(*episodes);
  return found;
}

// The processes: how many, on which hosts and GPUs, and how long they are waited for.
void describe_processes(const spec::RunSpec& spec, const host::ChosenDevices& devices, WorkerJob& job) {
  job.name = "train";
  job.ranks = devices.ranks;
  if (const std::int64_t hosts = spec.distributed.num_nodes; hosts > 1)
    job.hosts = JobHosts{static_cast<int>(hosts), static_cast<int>(spec.distributed.node_rank),
                         spec.distributed.master_addr.value_or("127.0.0.1"),
                         static_cast<std::uint16_t>(spec.distributed.master_port.value_or(29500))};
  else
    job.store = JobStore{spec.distributed.master_addr, spec.distributed.master_port};
  job.grace = std::chrono::minutes(10);  // ranks that are asked to end save first
  job.grace_after_failure = grace_after_failure;
  job.backend = spec.distributed.backend;
  job.assignment.timeout = spec.distributed.watchdog_seconds
                               ? std::chrono::milliseconds(std::chrono::seconds(*spec.distributed.watchdog_seconds))
                               : std::chrono::milliseconds(std::chrono::minutes(spec.distributed.timeout_minutes));
  job.assignment.seed = static_cast<std::uint64_t>(spec.experiment.seed);
  if (devices.gpus.empty()) return;
  job.selection.emplace();
  job.selection->ids.assign(devices.gpus.begin(), devices.gpus.end());
}

// What the user should know, beside what the plan says.
std::vector<std::string> notes_of(const spec::RunSpec& spec, const TrainPlan& plan, std::int64_t batch, std::int64_t ranks) {
  std::vector<std::string> notes = data_notes(plan.data, spec);
  if (spec.training.batch_size.value_or(batch) != batch)
    notes.push_back(fmt::format("the batch has {} {}s instead of {}, so that {} ranks can share it evenly", batch,
                                plan::unit_word(plan.question.workload), *spec.training.batch_size, ranks));
  if (spec.distributed.find_unused_parameters)
    notes.emplace_back(
        "distributed.find_unused_parameters changes nothing: every gradient is summed over the ranks, also that of a "
        "parameter that a step did not use");
  if (state_type(spec) == spec::ElementType::bfloat16)
    notes.emplace_back(
        "parameters and optimizer in bfloat16: a step that changes a weight by less than about 1/500 of it is lost");
  return notes;
}

// What ranks are told that a plan which fits and its data do not say by themselves.
Result<wire::TrainTask> make_task(const spec::RunSpec& spec, const TrainPlan& plan, const host::ChosenDevices& devices,
                                  const std::filesystem::path& model, std::int64_t batch, TrainedForms forms,
                                  const std::optional<spec::RewardModelChoice>& judge, const chat::ModelText& text) {
  const std::int64_t longest = plan.question.workload.sequence;
  const auto steps = step_count(spec, plan.data, batch, longest);
  if (!steps) return steps.error();
  wire::TrainTask task = task_of(spec, plan.plan, plan.question, model, plan.data, *steps, batch);
  task.compute = compute_type(spec, devices);
  task.state = state_type(spec);
  task.adapters = std::move(forms.adapters);
  task.adapter = only_adapter(spec.model);
  task.weights = std::move(forms.weights);
  if (auto taken = take_critic(task, spec, plan.question, text); !taken) return taken.error();
  if (task.critic && !task.critic_model) {
    auto head = find_value_head(task, *plan.question.model);
    if (!head) return head.error();
    task.value_head = std::move(*head);
  }
  if (judge) {
    task.judge = judge->model;
    task.judge_weights = judge->weights;
  }
  task.saving_ranks = devices.ranks;
  if (auto counted = count_periods(task, spec, plan.data, longest); !counted) return counted.error();
  task.identity = identity_of(task, spec);
  name_reference(task, spec, !devices.gpus.empty());
  return task;
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
  const auto model = model_of(spec, cache);
  if (!model) return model.error();
  const std::int64_t ranks = devices->ranks * spec.distributed.num_nodes;
  const auto sizes = batch_sizes(spec, request.settings.origins.contains("training.batch_size"), ranks);
  if (!sizes) return sizes.error();

  TrainPlan plan;
  auto question = ask_for_training(host, spec, *devices, *model, compute, *sizes);
  if (!question) return question.error();
  plan.question = std::move(*question);
  auto forms = check_forms(spec, plan.question);
  if (!forms) return forms.error();
  const auto judge = spec::choose_reward_model(spec, spec::model_search_from_environment());
  if (!judge) return judge.error();
  if (auto planned = plan_memory(spec, *forms, compute, plan); !planned) return planned.error();
  plan.notes = devices->notes;
  if (request.purpose == host::Purpose::plan)
    plan.plan.reasons.insert(plan.plan.reasons.end(), devices->notes.begin(), devices->notes.end());
  if (!plan.plan.fits()) return plan;

  auto data = read_data(spec, *judge, *model, cache, plan.question.workload.sequence, progress);
  if (!data) return data.error();
  plan.data = std::move(data->data);
  auto made = make_task(spec, plan, *devices, *model, sizes->all, std::move(*forms), *judge, data->text);
  if (!made) return made.error();
  describe_processes(spec, *devices, plan.job);
  plan.job.assignment.task = std::move(*made);
  auto& task = std::get<wire::TrainTask>(plan.job.assignment.task);
  for (std::string& note : notes_of(spec, plan, sizes->all, ranks)) plan.notes.push_back(std::move(note));
  if (!devices->gpus.empty() && !sizes->pass && !sizes->passes) begin_with_known_pass(KnownPasses(cache), plan, task);
  if (task.policy) {
    task.sampled_at_once = plan.plan.side_by_side.value_or(1);
    plan.rounds = round_plan(plan);
    plan.plan.reasons.push_back(round_words(*plan.rounds));
  }
  task.disk_patience = std::min(longest_disk_patience, plan.job.assignment.timeout / 2);
  if (data->questions) task.evaluation.questions = data->questions->string();
  task.evaluation.episodes = std::move(data->episodes.evaluations);
  task.evaluation.episode_rows = std::move(data->episodes.rows);
  if (auto checked = check_backend(plan.job); !checked) return checked.error();
  plan.device = device_words(plan.plan, static_cast<std::size_t>(devices->ranks), "one CPU rank");
  plan.spec_text = settings_text(request.settings, sizes->all);
  // The run's folder is host 0's.
  if (spec.distributed.node_rank > 0) return plan;
  if (auto found = find_run_to_resume(request.settings, plan); !found) return found.error();
  plan.disk = disk_of(host, plan, spec.experiment.output);
  return plan;
}

}  // namespace muster::job

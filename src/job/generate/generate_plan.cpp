// From a user's request to a job that fits: everything that can be refused is refused here.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/byte_count.hpp"
#include "base/text.hpp"
#include "chat/model_text.hpp"
#include "host/device_choice.hpp"
#include "job/generate/generate.hpp"
#include "job/generate/generate_rows.hpp"
#include "job/generate/prompt_file.hpp"
#include "job/model_forms.hpp"
#include "job/placement.hpp"
#include "planning/plan_question.hpp"
#include "spec/readers.hpp"
#include "system/sha256.hpp"

namespace muster::job {
namespace {

constexpr const char* file_for_answers = "the file for the answers is -o FILE";
// Sequences computed at once by default, if that many fit.
constexpr std::int64_t usual_batch_on_cpu = 8;
constexpr std::int64_t usual_batch_on_gpu = 64;

class SettingsCheck {
 public:
  explicit SettingsCheck(const GenerateRequest& request) : request_(request), spec_(request.settings.spec) {}

  std::vector<Problem> problems() {
    spec::ResolvedSpec concerning = request_.settings;
    std::erase_if(concerning.origins,
                  [](const auto& entry) { return !spec::reads(spec::Command::generate, entry.first); });
    problems_ = missing_capabilities(spec::Schema(), concerning);
    check_devices();
    check_resume();
    if (!spec_.model.path)
      report("", "no model is named", "-m MODEL: a folder, a GGUF file, or a name that muster model list shows");
    for (const std::int64_t token : spec_.generation.stop_tokens)
      if (!std::in_range<std::int32_t>(token))
        report(where("generation.stop_tokens"), fmt::format("generation.stop_tokens holds {}", token),
               "ids are below the size of the vocabulary");
    if (request_.mode == GenerateMode::converse && spec_.generation.samples > 1)
      report(
          where("generation.samples"),
          fmt::format("generation.samples is {}, and a conversation has one answer a turn", spec_.generation.samples),
          "leave it out");
    return std::move(problems_);
  }

 private:
  void report(std::string where, std::string what, std::string remedy) {
    problems_.push_back({std::move(where), std::move(what), std::move(remedy)});
  }
  std::string where(const std::string& key) const {
    const auto found = request_.settings.origins.find(key);
    return found == request_.settings.origins.end() ? "" : found->second.where;
  }
  void check_devices() {
    const spec::DistributedSpec& asked = spec_.distributed;
    const bool gpus = asked.num_gpus || !asked.gpu_ids.empty();
    const auto ranks = asked.ranks.value_or(1);
    const auto most = std::max<std::int64_t>({asked.num_gpus.value_or(1), std::ssize(asked.gpu_ids), ranks});
    const bool mapped = spec_.model.device_map || spec_.model.auto_device_map;
    if (request_.mode == GenerateMode::converse && most > 1 && !mapped)
      report("", fmt::format("a conversation is one rank's work, and {} are asked for", most),
             "leave that out; --device-map auto splits a model that does not fit one device");
    if (asked.device == spec::Device::cpu && gpus)
      report(where(asked.num_gpus ? "distributed.num_gpus" : "distributed.gpu_ids"),
             "GPUs are asked for, and --device is cpu", "--ranks N is for CPU ranks; leave one of the two out");
  }

  void check_resume() {
    if (!request_.resume) return;
    if (spec_.experiment.resume != "auto")
      report(where("experiment.resume"),
             fmt::format("--resume {}: what is resumed is the file of -o", spec_.experiment.resume.value_or("")),
             "--resume by itself, or --resume auto");
    if (request_.output == "-")
      report("", "--resume continues a file, and the answers go to standard output", file_for_answers);
    if (request_.prompts == "-" && request_.texts.empty())
      report("", "--resume compares the prompts with those of the run before, and standard input cannot be read twice",
             "write the prompts to a file: -p FILE");
  }

  const GenerateRequest& request_;
  const spec::RunSpec& spec_;
  std::vector<Problem> problems_;
};

Result<plan::Question> ask_for_generation(host::Host& host, spec::RunSpec settings, const host::ChosenDevices& chosen,
                                          GenerateMode mode) {
  auto question = ask(host, inference_request(std::move(settings)), chosen);
  if (!question) return question.error();
  question->workload.sequence = std::min(question->workload.sequence, question->model->config.positions);
  if (mode == GenerateMode::score) question->workload.new_tokens = 0;
  return question;
}

// A conversation needs a template that marks whose turn it is.
Result<void> check_template(const GenerateRequest& request) {
  if (request.mode != GenerateMode::converse) return {};
  const std::string& model = *request.settings.spec.model.path;
  const auto text =
      chat::read_model_text(request.settings.spec.model.tokenizer.value_or(model), spec::model_search_from_environment());
  if (!text) return text.error();
  if (text->has_chat_template()) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("{} has no chat template: it continues a text, and knows no turns", model),
               fmt::format("echo 'Once upon a time' | muster generate -m {} -p -", model)};
}

Result<void> check_lengths(const plan::Question& question, const GenerateRequest& request) {
  const std::int64_t room = question.workload.sequence;
  const std::int64_t asked = request.settings.spec.generation.max_new_tokens;
  if (request.mode == GenerateMode::score || asked < room) return {};
  const std::int64_t positions = question.model->config.positions;
  const bool model_is_short = positions <= asked;
  return Error{Error::Kind::bad_input,
               fmt::format("generation.max_new_tokens is {}, which leaves no room for a prompt: {} {}", asked,
                           model_is_short ? "the model's longest sequence is" : "generation.sequence_length is", room),
               model_is_short ? fmt::format("--max-new-tokens {}", std::max<std::int64_t>(positions / 2, 1))
                              : fmt::format("generation.sequence_length={}", std::min(2 * asked, positions))};
}

// As many sequences at once as requested; a conversation has one.
Result<Placement> place(PlacementOptions& options, std::int64_t usual, bool alone) {
  if (alone) options.question.micro_batch = 1;
  return options.question.micro_batch ? place_model(options) : place_batch(options, usual, false);
}

wire::GenerateTask task_of(const GenerateRequest& request, const plan::Question& question, const Placement& placement,
                           spec::DataType type) {
  const spec::RunSpec& spec = request.settings.spec;
  wire::GenerateTask task;
  task.model = model_choice(spec, host::element_type(type));
  task.batch_size = *question.micro_batch;
  task.sequence_length = question.workload.sequence;
  task.max_new_tokens = spec.generation.max_new_tokens;
  task.samples = spec.generation.samples;
  task.temperature = spec.generation.temperature;
  task.top_k = spec.generation.top_k;
  task.top_p = spec.generation.top_p;
  task.min_p = spec.generation.min_p;
  task.repetition_penalty = spec.generation.repetition_penalty;
  task.stop = spec.generation.stop.texts;
  for (const std::int64_t token : spec.generation.stop_tokens) task.stop_tokens.push_back(static_cast<int>(token));
  task.stages = placement.stages;
  task.in_host_memory = placement.in_host_memory;
  task.on_disk = placement.on_disk;
  task.score = request.mode == GenerateMode::score;
  task.log_probabilities = request.log_probabilities;
  task.stream = request.mode == GenerateMode::converse;
  return task;
}

// If a file can be read twice, every row is checked before anything starts.
Result<std::optional<std::int64_t>> count_prompts(const GenerateRequest& request) {
  if (request.mode == GenerateMode::converse) return std::optional<std::int64_t>();
  auto file = open_prompts(request);
  if (!file) return file.error();
  if (file->is_same_as(request.output))
    return Error{Error::Kind::bad_input, fmt::format("{} is both the prompts and the output", request.output),
                 "name another file with -o"};
  if (!file->can_be_read_twice()) return std::optional<std::int64_t>();
  const auto count = check_prompts(std::move(*file));
  if (!count) return count.error();
  return std::optional(*count);
}

Result<std::string> digest_of_prompts(const GenerateRequest& request) {
  if (request.texts.empty()) return sha256_of_file(request.prompts);
  Sha256 digest;
  for (const std::string& text : request.texts) {
    const std::string part = fmt::format("{} {}\n", text.size(), text);
    digest.add(std::as_bytes(std::span(part)));
  }
  return digest.finish();
}

// What an output file will have been made from, and how much of it exists already.
Result<void> find_earlier_rows(const GenerateRequest& request, GeneratePlan& plan) {
  if (request.output == "-" || !plan.total) return {};
  const auto sha256 = digest_of_prompts(request);
  if (!sha256) return sha256.error();
  plan.record = output_record(plan.job.assignment, plan.job.selection.has_value(), *plan.total, *sha256);
  if (!request.resume) return {};
  const auto answered = find_answered(request.output, plan.record);
  if (!answered) return answered.error();
  plan.answered = *answered;
  return {};
}

std::string gpu_words(const plan::Plan& plan, std::size_t gpus) {
  std::vector<std::string> numbers;
  std::string model = plan.ranks.front().gpu->name;
  for (const plan::RankPlan& rank : plan.ranks) {
    if (numbers.size() < gpus) numbers.push_back(std::to_string(rank.gpu->number));
    if (model != rank.gpu->name) model = "of several kinds";
  }
  std::string words = gpus == 1 ? fmt::format("GPU {} {}", numbers.front(), model)
                                : fmt::format("{} GPUs ({}) {}", gpus, join(numbers, ","), model);
  if (plan.ranks.size() > gpus) words += fmt::format(", shared by {} ranks", plan.ranks.size());
  return words;
}

// "4 CPU ranks: 2 replicas of 2 stages".
std::string placement_words(const Placement& placed, std::size_t gpus) {
  const std::size_t ranks = placed.plan.ranks.size();
  std::string words = gpus > 0 ? gpu_words(placed.plan, gpus) : device_words(placed.plan, ranks, "cpu");
  if (placed.stages.empty()) return words;
  const std::string replicas = placed.replicas() == 1 ? "one replica" : fmt::format("{} replicas", placed.replicas());
  return words + fmt::format(": {} of {} stages", replicas, placed.stages.size());
}

// Why GPUs that were not excluded stay idle.
std::vector<std::string> device_notes(const host::ChosenDevices& chosen, const Placement& placed, std::size_t gpus,
                                      bool prompts_are_counted) {
  if (!chosen.most_replicas || gpus == 0 || gpus >= chosen.visible) return {};
  std::string_view reason = "the others are not free";
  if (placed.replicas() == *chosen.most_replicas)
    reason = prompts_are_counted ? "as many as there are prompts; --num-gpus N takes another number"
                                 : "prompts come one by one; --num-gpus N takes another number";
  else if (chosen.gpus.size() == chosen.visible)
    reason = "the others hold no whole model";
  return {fmt::format("{} of {} GPUs compute: {}", gpus, chosen.visible, reason)};
}

}  // namespace

Result<PromptFile> open_prompts(const GenerateRequest& request) {
  if (!request.texts.empty()) return PromptFile::of_texts(request.texts);
  const PromptUse use = request.mode == GenerateMode::score ? PromptUse::scores : PromptUse::prompts;
  auto adapters = adapter_words(request.settings.spec.model.adapter_folders);
  if (!adapters) return adapters.error();
  auto file = PromptFile::open(request.prompts, use, longest_prompt_line, std::move(*adapters));
  if (file && replaces_modules(request.settings.spec.model)) file->require_adapter();
  return file;
}

Result<GeneratePlan> plan_generation(host::Host& host, const GenerateRequest& asked) {
  GenerateRequest request = asked;
  if (auto taken = take_model_name(request.settings.spec.model); !taken) return taken.error();
  if (const auto words = adapter_words(request.settings.spec.model.adapter_folders); !words) return words.error();
  if (const auto problems = SettingsCheck(request).problems(); !problems.empty()) return to_error(problems);
  const auto total = count_prompts(request);
  if (!total) return total.error();
  const spec::RunSpec& spec = request.settings.spec;
  const auto devices = host::choose_devices(host, spec.distributed, *total, request.purpose);
  if (!devices) return devices.error();
  spec::RunSpec settings = spec;
  settings.model.dtype = host::type_to_hold(spec.model.computed_type(), *devices);
  auto question = ask_for_generation(host, settings, *devices, request.mode);
  if (!question) return question.error();
  if (auto checked = check_weights(*question, spec.model,
                                   "name the folder that has model.safetensors; model.init=random draws weights, to "
                                   "measure speed");
      !checked)
    return checked.error();
  if (auto checked = check_predicts_tokens(*question->model); !checked) return checked.error();
  const auto adapters = given_adapters(spec.model, question->model->shape);
  if (!adapters) return adapters.error();
  if (auto counted = count_adapters(*question, *adapters); !counted) return counted.error();
  if (const auto weights = asked_form(spec.model, question->model->shape); !weights) return weights.error();
  if (auto checked = check_template(request); !checked) return checked.error();
  if (auto checked = check_lengths(*question, request); !checked) return checked.error();
  PlacementOptions placing{std::move(*question), devices->ranks, spec.model.max_memory};
  placing.most_replicas = request.mode == GenerateMode::converse ? 1 : devices->most_replicas;
  auto placed = place(placing, devices->gpus.empty() ? usual_batch_on_cpu : usual_batch_on_gpu,
                      request.mode == GenerateMode::converse);
  if (!placed) return placed.error();

  GeneratePlan plan;
  plan.job.name = "generate";
  plan.job.ranks = static_cast<int>(placed->plan.ranks.size());
  plan.job.survives_losses = placed->replicas() > 1;
  plan.job.backend = spec.distributed.backend;
  plan.job.assignment.task = task_of(request, placing.question, *placed, settings.model.dtype);
  plan.job.assignment.timeout = std::chrono::minutes(spec.distributed.timeout_minutes);
  plan.job.assignment.seed = static_cast<std::uint64_t>(spec.experiment.seed);
  plan.job.selection = gpus_of(placed->plan);
  if (auto checked = check_backend(plan.job); !checked) return checked.error();
  const std::size_t gpus = plan.job.selection ? plan.job.selection->ids.size() : 0;
  plan.device = placement_words(*placed, gpus);
  plan.notes = devices->notes;
  if (placed->plan.fits())
    for (std::string& note : device_notes(*devices, *placed, gpus, total->has_value()))
      plan.notes.push_back(std::move(note));
  placed->plan.reasons.insert(placed->plan.reasons.end(), plan.notes.begin(), plan.notes.end());
  plan.question = std::move(placing.question);
  plan.plan = std::move(placed->plan);
  plan.total = *total;
  if (auto found = find_earlier_rows(request, plan); !found) return found.error();
  return plan;
}

Error refusal_of(const GeneratePlan& plan) {
  return refusal_of(plan.plan, spec::Command::generate, "a smaller model, or a device with more memory");
}

}  // namespace muster::job

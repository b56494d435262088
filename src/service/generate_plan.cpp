// From what a user asks for to a job that fits: everything that can be refused is refused here.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/byte_count.hpp"
#include "base/text.hpp"
#include "chat/model_text.hpp"
#include "service/generate.hpp"
#include "service/generate_placement.hpp"
#include "service/generate_rows.hpp"
#include "service/plan.hpp"
#include "service/prompt_file.hpp"

namespace muster::service {
namespace {

constexpr std::string_view one_device = "several devices: not in this version";
constexpr gpu::ComputeCapability first_with_bfloat16{8, 0};
// Sequences computed at once where nothing is said, if that many fit.
constexpr std::int64_t usual_batch_on_cpu = 8;
constexpr std::int64_t usual_batch_on_gpu = 64;

// Settings of sections that generation has nothing to do with are left to the commands that have.
bool concerns_generation(const std::string& key) {
  constexpr std::array sections{"distributed.", "model.", "generation.", "system."};
  return std::ranges::any_of(sections, [&](const char* section) { return key.starts_with(section); });
}

class SettingsCheck {
 public:
  explicit SettingsCheck(const GenerateWish& wish) : wish_(wish), spec_(wish.settings.spec) {}

  std::vector<Problem> problems() {
    spec::ResolvedSpec concerning = wish_.settings;
    std::erase_if(concerning.origins, [](const auto& entry) { return !concerns_generation(entry.first); });
    problems_ = missing_capabilities(spec::Schema(), concerning);
    check_devices();
    check_run_folder();
    if (!spec_.model.path)
      report("", "no model is named", "-m MODEL: a folder, a GGUF file, or a name that muster model list shows");
    for (const std::int64_t token : spec_.generation.stop_tokens)
      if (!std::in_range<std::int32_t>(token))
        report(where("generation.stop_tokens"), fmt::format("generation.stop_tokens holds {}", token),
               "ids are below the size of the vocabulary");
    if (wish_.mode == GenerateMode::converse && spec_.generation.samples > 1)
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
    const auto found = wish_.settings.origins.find(key);
    return found == wish_.settings.origins.end() ? "" : found->second.where;
  }
  void report_several(const std::string& key, std::string_view value) {
    report(where(key), fmt::format("{} is {}: {}", key, value, one_device), "leave it out, or ask for one");
  }

  void check_devices() {
    const spec::DistributedSpec& asked = spec_.distributed;
    if (asked.num_gpus.value_or(1) > 1) report_several("distributed.num_gpus", std::to_string(*asked.num_gpus));
    if (asked.gpu_ids.size() > 1) report_several("distributed.gpu_ids", join(asked.gpu_ids, ","));
    const bool alone = asked.strategy == spec::Strategy::automatic || asked.strategy == spec::Strategy::single;
    const auto typed = wish_.settings.origins.find("distributed.strategy");
    // A run's configuration file may say how it trains.
    if (!alone && typed != wish_.settings.origins.end() && typed->second.kind == spec::Origin::Kind::command_line)
      report(where("distributed.strategy"), fmt::format("distributed.strategy spreads a model: {}", one_device),
             "leave it out");
  }

  // Only where they were typed for this command: a run's configuration file has them, too.
  void check_run_folder() {
    for (const char* key : {"experiment.output", "experiment.name", "experiment.resume"}) {
      const auto found = wish_.settings.origins.find(key);
      if (found != wish_.settings.origins.end() && found->second.kind == spec::Origin::Kind::command_line)
        report(found->second.where, "muster generate makes no run folder", "the file for the answers is -o FILE");
    }
  }

  const GenerateWish& wish_;
  const spec::RunSpec& spec_;
  std::vector<Problem> problems_;
};

struct ChosenDevice {
  std::optional<gpu::VisibleIndex> gpu;  // absent: the CPU
  std::string words = "cpu";
  bool has_bfloat16 = false;
};

// No silent fallback: GPUs that are asked for and not there are a refusal.
Result<ChosenDevice> choose_device(Host& host, const spec::DistributedSpec& asked) {
  if (asked.device == spec::Device::cpu) return ChosenDevice{};
  const auto view = host.look(gpu::Detail::everything);
  if (!view) return view.error();
  const bool nothing_asked =
      asked.device == spec::Device::automatic && asked.gpu_ids.empty() && !asked.num_gpus.has_value();
  if (view->visible.empty() && nothing_asked) return ChosenDevice{};
  if (view->visible.empty())
    return Error{Error::Kind::refused, "a GPU is asked for, and none is visible", "--device cpu, or muster doctor"};
  gpu::SelectionRequest request;
  request.ids = asked.gpu_ids;
  if (request.ids.empty()) request.count = 1;
  const auto picked = host.pick(request);
  if (!picked) return picked.error();
  const gpu::VisibleIndex index = picked->front();
  const gpu::GpuFacts& facts = view->gpu_of(view->visible[static_cast<std::size_t>(number(index))]).facts;
  // A GPU that does not tell is taken for a present-day one; the worker refuses a type that its device lacks.
  return ChosenDevice{index, fmt::format("GPU {} {}", number(index), facts.name.value_or("")),
                      facts.compute_capability.value_or(first_with_bfloat16) >= first_with_bfloat16};
}

spec::DataType type_to_hold(spec::DataType asked, const ChosenDevice& device) {
  if (asked != spec::DataType::automatic) return asked;
  return device.has_bfloat16 ? spec::DataType::bfloat16 : spec::DataType::float32;
}

spec::ElementType element_type(spec::DataType type) {
  if (type == spec::DataType::bfloat16) return spec::ElementType::bfloat16;
  return type == spec::DataType::float16 ? spec::ElementType::float16 : spec::ElementType::float32;
}

Result<plan::Question> ask(Host& host, spec::RunSpec settings, const ChosenDevice& device, GenerateMode mode) {
  settings.distributed.device = device.gpu ? spec::Device::cuda : spec::Device::cpu;
  settings.distributed.num_gpus.reset();
  settings.distributed.gpu_ids.clear();
  settings.distributed.strategy = spec::Strategy::automatic;
  if (device.gpu) settings.distributed.gpu_ids = {std::to_string(number(*device.gpu))};
  PlanWish wish;
  wish.spec = std::move(settings);
  wish.implementation = plan::Implementation::muster;
  auto question = plan_question(host, wish);
  if (!question) return question.error();
  question->spare.clear();
  question->workload.sequence = std::min(question->workload.sequence, question->model->config.positions);
  if (mode == GenerateMode::score) question->workload.new_tokens = 0;
  return question;
}

Result<void> check_weights(const plan::Question& question, const spec::ModelSpec& model) {
  if (model.init == spec::WeightSource::random || question.model->checkpoint_bytes) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("{} has no weights: there is no checkpoint beside its config", *model.path),
               "name the folder that has model.safetensors; model.init=random draws weights, to measure speed"};
}

// A conversation needs a template that writes down whose turn it is.
Result<void> check_template(const GenerateWish& wish) {
  if (wish.mode != GenerateMode::converse) return {};
  const std::string& model = *wish.settings.spec.model.path;
  const auto text =
      chat::read_model_text(wish.settings.spec.model.tokenizer.value_or(model), spec::model_search_from_environment());
  if (!text) return text.error();
  if (text->has_chat_template()) return {};
  return Error{Error::Kind::bad_input,
               fmt::format("{} has no chat template: it goes on from a text, and knows no turns", model),
               fmt::format("echo 'Once upon a time' | muster generate -m {} -p -", model)};
}

Result<void> check_lengths(const plan::Question& question, const GenerateWish& wish) {
  const std::int64_t room = question.workload.sequence;
  const std::int64_t asked = wish.settings.spec.generation.max_new_tokens;
  if (wish.mode == GenerateMode::score || asked < room) return {};
  const std::int64_t positions = question.model->config.positions;
  const bool model_is_short = positions <= asked;
  return Error{Error::Kind::bad_input,
               fmt::format("generation.max_new_tokens is {}, which leaves no room for a prompt: {} {}", asked,
                           model_is_short ? "the model's longest sequence is" : "generation.sequence_length is", room),
               model_is_short ? fmt::format("--max-new-tokens {}", std::max<std::int64_t>(positions / 2, 1))
                              : fmt::format("generation.sequence_length={}", std::min(2 * asked, positions))};
}

// As many sequences at once as asked for; else the usual number, or the half of it, or the quarter …
Result<Placement> place_batch(PlacementWish& wish, std::int64_t usual, bool alone) {
  if (wish.question.micro_batch || alone) {
    if (alone) wish.question.micro_batch = 1;
    return place_model(wish);
  }
  for (std::int64_t batch = usual;; batch /= 2) {
    wish.question.micro_batch = batch;
    auto placed = place_model(wish);
    if (!placed || placed->plan.fits() || batch == 1) return placed;
  }
}

wire::GenerateTask task_of(const GenerateWish& wish, const plan::Question& question, const Placement& placement,
                           spec::DataType type) {
  const spec::RunSpec& spec = wish.settings.spec;
  wire::GenerateTask task;
  task.model = *spec.model.path;
  task.tokenizer = spec.model.tokenizer;
  task.random_weights = spec.model.init == spec::WeightSource::random;
  task.dtype = element_type(type);
  task.attention = spec.system.attn_impl;
  task.deterministic = spec.system.deterministic;
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
  task.score = wish.mode == GenerateMode::score;
  task.log_probabilities = wish.log_probabilities;
  task.stream = wish.mode == GenerateMode::converse;
  return task;
}

// Of a file that can be read twice, every row is looked at before anything starts.
Result<std::optional<std::int64_t>> count_prompts(const GenerateWish& wish) {
  if (wish.mode == GenerateMode::converse) return std::optional<std::int64_t>();
  const PromptUse use = wish.mode == GenerateMode::score ? PromptUse::scores : PromptUse::prompts;
  const auto file = PromptFile::open(wish.prompts, use, longest_prompt_line);
  if (!file) return file.error();
  if (file->is_same_as(wish.output))
    return Error{Error::Kind::bad_input, fmt::format("{} is both the prompts and the output", wish.output),
                 "name another file with -o"};
  if (!file->can_be_read_twice()) return std::optional<std::int64_t>();
  const auto count = check_prompts(wish.prompts, use, longest_prompt_line);
  if (!count) return count.error();
  return std::optional(*count);
}

struct Translation {
  std::string_view of_plan;
  std::string_view here;  // what the value is put behind
};
constexpr std::array translations{Translation{"--batch", "--batch-size "},
                                  Translation{"--seq-len", "generation.sequence_length="},
                                  Translation{"--dtype", "--dtype "}, Translation{"--attention", "system.attn_impl="}};

// A plan's remedy in this command's words; nothing where this command cannot do it.
std::optional<std::string> translate(const plan::Remedy& remedy) {
  std::vector<std::string> words;
  for (const plan::OptionChange& change : remedy.options) {
    const auto found = std::ranges::find(translations, change.option, &Translation::of_plan);
    if (found == translations.end() || change.value.starts_with("int")) return std::nullopt;
    words.push_back(fmt::format("{}{}", found->here, change.value));
  }
  return fmt::format("{} ({})", join(words, " "), remedy.change);
}

}  // namespace

Result<GeneratePlan> plan_generation(Host& host, const GenerateWish& wish) {
  if (const auto problems = SettingsCheck(wish).problems(); !problems.empty()) return to_error(problems);
  const auto total = count_prompts(wish);
  if (!total) return total.error();
  const spec::RunSpec& spec = wish.settings.spec;
  const auto device = choose_device(host, spec.distributed);
  if (!device) return device.error();
  spec::RunSpec settings = spec;
  settings.model.dtype = type_to_hold(spec.model.dtype, *device);
  auto question = ask(host, settings, *device, wish.mode);
  if (!question) return question.error();
  if (auto checked = check_weights(*question, spec.model); !checked) return checked.error();
  if (auto checked = check_template(wish); !checked) return checked.error();
  if (auto checked = check_lengths(*question, wish); !checked) return checked.error();
  PlacementWish placing{std::move(*question), static_cast<int>(spec.distributed.ranks.value_or(1)),
                        spec.model.max_memory};
  auto placed =
      place_batch(placing, device->gpu ? usual_batch_on_gpu : usual_batch_on_cpu, wish.mode == GenerateMode::converse);
  if (!placed) return placed.error();

  GeneratePlan plan;
  plan.job.name = "generate";
  plan.job.ranks = static_cast<int>(placed->plan.ranks.size());
  plan.job.assignment.task = task_of(wish, placing.question, *placed, settings.model.dtype);
  plan.job.assignment.seed = static_cast<std::uint64_t>(spec.experiment.seed);
  if (device->gpu) {
    plan.job.selection.emplace();
    plan.job.selection->ids = {std::to_string(number(*device->gpu))};
  }
  plan.question = std::move(placing.question);
  plan.plan = std::move(placed->plan);
  plan.device = device->words;
  plan.total = *total;
  return plan;
}

Error refusal_of(const GeneratePlan& plan) {
  const plan::Refusal& refusal = *plan.plan.refusal;
  std::vector<std::string> remedies;
  for (const plan::Remedy& remedy : refusal.remedies)
    if (auto words = translate(remedy)) remedies.push_back(std::move(*words));
  return {Error::Kind::refused, refusal.reason,
          remedies.empty() ? "a smaller model, or a device with more memory" : join(remedies, "; ")};
}

}  // namespace muster::service

#include "job/train/train_question.hpp"

#include <algorithm>

#include "job/train/train.hpp"
#include "planning/plan_question.hpp"

namespace muster::job {
namespace {

// Rows per pass on a CPU rank, where nothing else limits it: more gain nothing there.
constexpr std::int64_t usual_rows_on_cpu = 2048;

spec::DataType data_type(spec::ElementType type) {
  if (type == spec::ElementType::bfloat16) return spec::DataType::bfloat16;
  return type == spec::ElementType::float16 ? spec::DataType::float16 : spec::DataType::float32;
}

}  // namespace

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

std::string_view word(spec::ElementType type) {
  if (type == spec::ElementType::bfloat16) return "bfloat16";
  return type == spec::ElementType::float16 ? "float16" : "float32";
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

}  // namespace muster::job

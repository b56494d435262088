#include "worker/pipeline.hpp"

namespace muster::worker {
namespace {

using communicate::Backend;

// Signs of life come well before a wait for them ends.
constexpr int signs_in_timeout = 4;

}  // namespace

model::LayerRange Pipeline::layers_of(const Job& job, const std::vector<wire::Stage>& stages) {
  const wire::Stage& own = stages[static_cast<std::size_t>(job.place.rank) % stages.size()];
  return {own.first_layer, own.last_layer + 1};
}

Result<std::unique_ptr<Pipeline>> Pipeline::join(const Job& job, const std::vector<wire::Stage>& stages) {
  const int count = static_cast<int>(stages.size());
  const auto place = communicate::place_in_group(job.place, job.place.rank / count * count, count);
  const auto timeout = job.assignment().timeout;
  auto messages = communicate::make_communicator(Backend::gloo, place, at::kCPU, timeout);
  if (!messages) return messages.error();
  std::unique_ptr<Pipeline> pipeline(new Pipeline);
  pipeline->messages_ = std::move(*messages);
  if (job.assignment().backend != wire::Backend::gloo) {
    auto rows = communicate::make_communicator(Backend::nccl, place, job.device, timeout);
    if (!rows) return rows.error();
    pipeline->rows_ = std::move(*rows);
  }
  pipeline->silence_ = timeout / signs_in_timeout;
  return pipeline;
}

void Pipeline::connect(model::CausalModel& model, tensor::DeviceOps& ops, model::KeyValueCache& cache,
                       const tensor::SamplingRules& rules) {
  stage_.emplace(model, ops, cache, rules);
  link_.emplace(generate::PipelineRanks{*messages_, rows_.get()}, silence_);
}

generate::StepRunner& Pipeline::start(model::CausalModel& model, tensor::DeviceOps& ops,
                                      model::KeyValueCache& cache, const tensor::SamplingRules& rules) {
  connect(model, ops, cache, rules);
  return runner_.emplace(*stage_, *link_, link_->stages());
}

void Pipeline::serve(model::CausalModel& model, tensor::DeviceOps& ops, model::KeyValueCache& cache,
                     const tensor::SamplingRules& rules) {
  connect(model, ops, cache, rules);
  generate::run_stage(*stage_, *link_);
}

}  // namespace muster::worker

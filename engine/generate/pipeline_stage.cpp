#include "generate/pipeline_stage.hpp"

#include "generate/local_runner.hpp"

namespace muster::generate {

at::Tensor ModelStage::forward(const Step& step, const at::Tensor& before) {
  cache_.move(step.moves);
  const model::Pass pass = model_.prepare(step.batch, &cache_);
  return model_.forward(pass, before.defined() ? before : model_.embed(pass));
}

std::vector<tensor::ChosenToken> ModelStage::draw(const Step& step, const at::Tensor& hidden) {
  return draw_tokens(model_, ops_, rules_, hidden, step.draws);
}

at::Tensor ModelStage::empty_rows(std::int64_t rows) const {
  return at::empty({rows, model_.config().hidden}, at::TensorOptions().dtype(model_.type()).device(ops_.device));
}

void run_stage(StageWork& work, PipelineLink& link) {
  while (const auto step = link.next_step()) {
    const at::Tensor hidden = work.forward(*step, link.rows_into(work.empty_rows(step->batch.rows())));
    link.is_last() ? link.answer(work.draw(*step, hidden)) : link.pass_on(*step, hidden);
  }
  link.end();
}

}  // namespace muster::generate

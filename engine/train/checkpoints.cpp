#include "train/checkpoints.hpp"

namespace muster::train {
namespace {

checkpoint::SaverPlace saver_place(const wire::TrainTask& task, int rank) {
  checkpoint::SaverPlace place;
  place.folder = std::filesystem::path(task.run_folder) / "checkpoints";
  place.attempt = task.attempt;
  place.rank = rank;
  place.ranks = static_cast<int>(task.saving_ranks);
  if (task.keep) place.keep = static_cast<int>(*task.keep);
  return place;
}

}  // namespace

Checkpoints::Checkpoints(const wire::TrainTask& task, int rank, const StateTensors& state) : state_(state) {
  if (rank >= task.saving_ranks) return;
  saver_.emplace(saver_place(task, rank), state.tensors());
  copy_ = std::make_shared<checkpoint::HostCopy>(
      checkpoint::share_of(state.tensors(), static_cast<int>(task.saving_ranks), rank));
}

Result<void> Checkpoints::save(const checkpoint::TrainingState& facts) {
  if (!saver_) return {};
  if (begun_)
    if (auto before = saver_->wait(); !before) return before.error();
  since_ = std::chrono::steady_clock::now();
  state_.copy_to(*copy_);
  if (auto started = saver_->begin(facts, copy_); !started) return started;
  begun_ = facts.step;
  told_ = false;
  return {};
}

Result<std::optional<wire::Saved>> Checkpoints::completed(bool wait) {
  if (told_ || (!wait && !saver_->finished())) return std::optional<wire::Saved>();
  const auto report = saver_->wait();
  if (!report) return report.error();
  told_ = true;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since_;
  return std::optional(wire::Saved{*begun_, report->path.string(), took.count()});
}

}  // namespace muster::train

#include "train/checkpoints.hpp"

#include "tensor/host_memory.hpp"

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

Checkpoints::Checkpoints(const wire::TrainTask& task, int rank, at::Device device, const StateTensors& state)
    : state_(state), device_(device) {
  if (rank >= task.saving_ranks) return;
  saver_.emplace(saver_place(task, rank), state.tensors());
  copy_ = std::async(std::launch::async, [device, pieces = checkpoint::share_of(
                                                      state.tensors(), static_cast<int>(task.saving_ranks), rank)] {
    auto memory = tensor::host_memory(device, static_cast<std::size_t>(checkpoint::element_count(pieces)));
    return std::make_shared<checkpoint::HostCopy>(pieces, std::move(memory));
  });
}

// Ordering some hundred copies takes milliseconds, which a GPU need not wait for: the thread that writes does it. On a
// CPU the copy is made here and now.
Result<void> Checkpoints::save(const checkpoint::TrainingState& facts) {
  if (!saver_ || begun_ == facts.step) return {};
  if (begun_)
    if (auto before = saver_->wait(); !before) return before.error();
  since_ = std::chrono::steady_clock::now();
  auto copying = std::make_shared<std::packaged_task<parallel::StreamMark()>>(
      [this, changed = parallel::StreamMark::of_current_stream(device_)] {
        const at::NoGradGuard forward_only;
        const parallel::SideStream beside(device_);
        changed.order_current_stream();
        state_.copy_to(*copy_.get());
        return parallel::StreamMark::of_current_stream(device_);
      });
  copied_ = copying->get_future().share();
  if (!device_.is_cuda()) (*copying)();
  const auto arrived = [copying, copied = copied_, later = device_.is_cuda()] {
    if (later) (*copying)();
    copied.get().wait();
  };
  if (auto started = saver_->begin(facts, copy_.get(), arrived); !started) return started;
  begun_ = facts.step;
  told_ = false;
  return {};
}

void Checkpoints::before_change() const {
  if (copied_.valid()) copied_.get().order_current_stream();
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

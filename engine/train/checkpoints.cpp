#include "train/checkpoints.hpp"

#include <fmt/format.h>

#include "base/byte_count.hpp"
#include "communicate/failure_text.hpp"
#include "tensor/host_memory.hpp"
#include "train/progress_sign.hpp"

namespace muster::train {
namespace {

checkpoint::SaverContext saver_place(const wire::TrainTask& task, int rank, int savers) {
  checkpoint::SaverContext place;
  place.folder = std::filesystem::path(task.run_folder) / "checkpoints";
  place.attempt = task.attempt;
  place.rank = rank;
  place.ranks = savers;
  if (task.keep) place.keep = static_cast<int>(*task.keep);
  place.disk_patience = task.disk_patience;
  return place;
}

Result<std::shared_ptr<checkpoint::HostCopy>> room_for_copy(at::Device device, std::vector<checkpoint::Piece> pieces) {
  const std::size_t count = checkpoint::HostCopy::floats_for(pieces);
  try {
    return std::make_shared<checkpoint::HostCopy>(std::move(pieces), tensor::host_memory(device, count));
  } catch (const std::exception& problem) {
    return Error{
        Error::Kind::refused,
        fmt::format("no {} of the host's memory for the copy that checkpoints are written from: {}",
                    to_string(ByteCount{static_cast<std::int64_t>(count * sizeof(float))}),
                    communicate::first_line(problem)),
        "free some, use more hosts, or keep no checkpoints: training.save_at_end=model, no training.save_steps"};
  }
}

}  // namespace

std::vector<checkpoint::LogicalTensor> Checkpoints::tensors_of(const std::vector<SavedState>& states) {
  std::vector<checkpoint::LogicalTensor> all;
  for (const SavedState& state : states)
    all.insert(all.end(), state.tensors.tensors().begin(), state.tensors.tensors().end());
  return all;
}

Checkpoints::Checkpoints(const wire::TrainTask& task, const CheckpointPlace& place, std::vector<SavedState> states)
    : tell_(place.tell), states_(std::move(states)), device_(states_.front().tensors.device()) {
  std::optional<std::vector<checkpoint::Piece>> share;  // states lie over the same ranks
  for (const SavedState& state : states_)
    if (auto more = state.transfer.share()) {
      if (!share) share.emplace();
      share->insert(share->end(), more->begin(), more->end());
    }
  if (!share) return;
  saver_.emplace(saver_place(task, place.rank, states_.front().transfer.savers()), tensors_of(states_));
  // A run that keeps none needs it only where it is asked to leave.
  const bool saves = task.save_every || task.save_at_end == spec::FinalSave::all;
  copy_ = std::async(saves ? std::launch::async : std::launch::deferred, room_for_copy, device_, std::move(*share));
}

// Ordering some hundred copies takes milliseconds, which a GPU need not wait for: the thread that writes does it, by
// calling what is returned. In the host's memory the copy is made here and now.
std::function<void()> Checkpoints::begin_copy() {
  auto copying = std::make_shared<std::packaged_task<parallel::StreamMark()>>(
      [this, changed = parallel::StreamMark::of_current_stream(device_)] {
        const at::NoGradGuard forward_only;
        const parallel::SideStream beside(device_);
        changed.order_current_stream();
        for (const SavedState& state : states_) state.tensors.copy_to(**copy_.get());
        return parallel::StreamMark::of_current_stream(device_);
      });
  copied_ = copying->get_future().share();
  if (!device_.is_cuda()) (*copying)();
  return [copying, copied = copied_, later = device_.is_cuda()] {
    if (later) (*copying)();
    copied.get().wait();
  };
}

Result<void> Checkpoints::save(const checkpoint::TrainingState& facts) {
  if (begun_ == facts.step) return {};
  if (saver_ && begun_)
    if (auto before = await_save(); !before) return before.error();
  begun_ = facts.step;
  since_ = std::chrono::steady_clock::now();
  if (saver_ && !copy_.get()) return copy_.get().error();
  for (const SavedState& state : states_) state.transfer.bring_to_savers(saver_ ? copy_.get()->get() : nullptr);
  if (!saver_) return {};
  if (auto started = saver_->begin(facts, *copy_.get(), begin_copy()); !started) return started;
  told_ = false;
  return {};
}

Result<checkpoint::SaveReport> Checkpoints::await_save() {
  ProgressSign sign(tell_, "writing a checkpoint", static_cast<std::int64_t>((*copy_.get())->all().size_bytes()));
  while (!saver_->finished(ProgressSign::between_signs)) {
    tell_shortage();
    sign.give(static_cast<std::int64_t>(saver_->written()));
  }
  return saver_->wait();
}

void Checkpoints::tell_shortage() {
  if (const auto what = saver_->take_shortage()) tell_(wire::Waiting{*what});
}

void Checkpoints::before_change() const {
  if (copied_.valid()) copied_.get().order_current_stream();
}

Result<std::optional<wire::Saved>> Checkpoints::completed(bool wait) {
  // Better known now than when the first one is due.
  if (saver_ && copy_.wait_for(std::chrono::seconds(0)) == std::future_status::ready && !copy_.get())
    return copy_.get().error();
  if (!told_) tell_shortage();
  if (told_ || (!wait && !saver_->finished())) return std::optional<wire::Saved>();
  const auto report = await_save();
  if (!report) return report.error();
  told_ = true;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since_;
  return std::optional(wire::Saved{*begun_, report->path.string(), took.count()});
}

}  // namespace muster::train

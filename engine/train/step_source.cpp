#include "train/step_source.hpp"

#include <optional>

namespace muster::train {
namespace {

constexpr int read_ahead = 4;  // steps

class DatasetSteps final : public StepSource {
 public:
  DatasetSteps(data::Dataset dataset, const wire::TrainTask& task, std::uint64_t seed, int ranks, int rank)
      : dataset_(std::move(dataset)),
        order_{seed, true, task.packing, task.sequence_length, spec::samples_together(task.algorithm)},
        batch_size_(task.batch_size),
        settings_{static_cast<int>(task.loader_threads), read_ahead, task.algorithm == spec::Algorithm::kto},
        ranks_(ranks),
        rank_(rank) {}

  Result<SourcedStep> next(std::int64_t) override { return SourcedStep{loader_->next()}; }

  void seek(data::BatchCursor cursor, std::int64_t micro_batch) override {
    data::BatchSchedule schedule(dataset_.lengths(), order_, batch_size_);
    schedule.seek(cursor);
    loader_.emplace(dataset_, std::move(schedule), data::RankPlace{ranks_, rank_, micro_batch}, settings_);
  }

 private:
  data::Dataset dataset_;
  data::OrderSettings order_;
  std::int64_t batch_size_;
  data::LoaderSettings settings_;
  int ranks_, rank_;
  std::optional<data::BatchLoader> loader_;
};

}  // namespace

std::unique_ptr<StepSource> make_dataset_steps(data::Dataset dataset, const wire::TrainTask& task, std::uint64_t seed,
                                               int ranks, int rank) {
  return std::make_unique<DatasetSteps>(std::move(dataset), task, seed, ranks, rank);
}

}  // namespace muster::train

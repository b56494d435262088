// events.out.tfevents.*: the numbers of a run as TensorBoard reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "store/appended_file.hpp"
#include "store/timestamp.hpp"

namespace muster::store {

struct Scalar {
  std::string tag;  // "train/loss"; TensorBoard groups by what comes before the slash
  double value = 0;
};

// Where a column of metrics.csv appears in TensorBoard: "loss" → "train/loss", "eval_loss" → "eval/loss".
std::string tensorboard_tag(std::string_view column);

class TensorBoardFile {
 public:
  // A new file in folder, whose name sorts after those of the files there, which is the order they are read in.
  // go_on_after: the run is resumed from this step. What earlier files have of later steps is then superseded: TensorBoard
  // drops it when it reaches this file.
  static Result<TensorBoardFile> create(const std::filesystem::path& folder, Moment now,
                                        std::optional<std::int64_t> go_on_after = {});

  // All scalars of a step as one event, by one write().
  Result<void> append(Moment time, std::int64_t step, std::span<const Scalar> scalars);
  void wait_when_full(const FullDisk& full) { file_.wait_when_full(full); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit TensorBoardFile(AppendedFile file) : file_(std::move(file)) {}

  AppendedFile file_;
};

}  // namespace muster::store

// How much disk space a training run needs: its checkpoints, the exported model and its records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "spec/model/model_shape.hpp"
#include "wire/train_task.hpp"

namespace muster::job {

struct DiskNeed {
  ByteCount checkpoint;       // each of them
  std::int64_t kept = 0;      // checkpoints that stay
  std::int64_t most = 0;      // checkpoints at one time, with one that is being written
  ByteCount model;            // 0: none is exported
  bool model_is_adapter = false;
  ByteCount records;          // metrics, events, TensorBoard's file
  ByteCount present;          // checkpoints of a resumed run, which exist already
  std::filesystem::path folder;
  std::optional<ByteCount> free;  // absent: the file system does not say

  // At the moment when the run takes the most.
  ByteCount peak() const;
  // The part of it that still has to be written.
  ByteCount needed() const;
  bool fits() const { return !free || *free >= needed(); }
};

// Bytes of a checkpoint and of the exported model. Of adapters, whose base is not saved, theirs alone.
ByteCount checkpoint_size(const spec::ModelShape& shape, const wire::TrainTask& task);
ByteCount export_size(const spec::ModelShape& shape, const wire::TrainTask& task);

// What follows from the task alone: folder, free and present are set by the caller.
DiskNeed disk_need(const wire::TrainTask& task, ByteCount checkpoint, ByteCount model);

// "disk: 23.9 MiB (at most 3 checkpoints of 7.1 MiB, a model of 2.4 MiB, …), 40.0 GiB free in runs"
std::string disk_line(const DiskNeed& need);
nlohmann::ordered_json disk_json(const DiskNeed& need);
// For a need that does not fit: what is short, and which settings would help.
Error disk_refusal(const DiskNeed& need, const wire::TrainTask& task);

}  // namespace muster::job

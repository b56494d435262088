#include "checkpoint/checkpoint_saver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "system/disk_space.hpp"
#include "system/files.hpp"
#include "system/replace_folder.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/piece_file.hpp"
#include "checkpoint/piece_file_writer.hpp"
#include "checkpoint/training_manifest.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr auto poll_interval = std::chrono::milliseconds(10);

Error misuse(std::string what) { return {Error::Kind::failed, std::move(what), ""}; }

bool is_attempt(std::string_view word) {
  return !word.empty() && word.size() <= 64 && std::ranges::all_of(word, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '-' || letter == '_';
  });
}

// One save of one rank, carried out in a thread of its own.
class Save {
 public:
  Save(SaverContext place, std::vector<LogicalTensor> tensors, TrainingState state, std::shared_ptr<const HostCopy> copy,
       std::atomic<std::uint64_t>& written, std::function<void(const std::string&)> on_shortage)
      : place_(std::move(place)),
        tensors_(std::move(tensors)),
        state_(std::move(state)),
        copy_(std::move(copy)),
        written_(written),
        wait_(place_.disk_patience, std::move(on_shortage)),
        staging_(place_.folder / staging_name(state_.step, place_.attempt)) {}

  Result<SaveReport> run(std::stop_token stop) {
    auto report = place_.rank == 0 ? lead(stop) : write_own(stop);
    copy_.reset();  // the caller may fill it again
    if (report) return report;
    std::error_code ignored;
    if (place_.rank != 0)
      tell_failure(report.error());
    else if (wrote_own_ || place_.ranks == 1 || stop.stop_requested())
      fs::remove_all(staging_, ignored);
    // Else the others may still be writing, and would fail for lack of the folder, hiding the true reason: it stays
    // until remove_leftovers(). What this rank wrote is removed to make room.
    else
      fs::remove(file_of(0).string() + ".part", ignored);
    return report;
  }

 private:
  fs::path checkpoint() const { return place_.folder / checkpoint_name(state_.step); }
  fs::path file_of(int rank) const {
    return staging_ / piece_file_name(static_cast<std::size_t>(rank), static_cast<std::size_t>(place_.ranks));
  }
  // Where a rank reports to rank 0 why it failed, so that rank 0 need not wait until its patience ends.
  fs::path failure_of(int rank, Error::Kind kind) const {
    return staging_ / fmt::format("rank-{}.{}", rank, kind == Error::Kind::refused ? "refused" : "failed");
  }
  void tell_failure(const Error& error) const {
    const auto told = write_file_atomically(failure_of(place_.rank, error.kind), to_string(error));
    static_cast<void>(told);  // the folder may be gone: rank 0 has given up
  }

  std::string name_for_user() const { return fmt::format("the checkpoint of step {}", state_.step); }

  // Bytes that the ranks together still have to write.
  ByteCount bytes_left() const {
    constexpr std::int64_t headers = 64 * 1024;  // and the manifest
    std::int64_t bytes = headers;
    for (const LogicalTensor& tensor : tensors_) bytes += byte_count(tensor);
    std::error_code ignored;
    for (fs::directory_iterator entry(staging_, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
      std::error_code vanished;
      const auto size = entry->file_size(vanished);
      if (!vanished) bytes -= static_cast<std::int64_t>(size);
    }
    return {std::max<std::int64_t>(bytes, 0)};
  }

  // Where the disk fills up during the write, what was written is removed to make room, and it is tried again.
  Result<std::uint64_t> write_when_there_is_room(const std::stop_token& stop) {
    while (true) {
      if (auto room = wait_.until_free(place_.folder, bytes_left(), name_for_user(), stop); !room) return room.error();
      auto bytes = write_piece_file(file_of(place_.rank), {state_.step, place_.attempt}, *copy_, stop, written_);
      if (bytes || bytes.error().kind != Error::Kind::refused) return bytes;
      std::error_code ignored;
      fs::remove(file_of(place_.rank).string() + ".part", ignored);
      if (!wait_.pause(name_for_user(), stop)) return bytes;
    }
  }

  Result<SaveReport> write_own(const std::stop_token& stop) {
    std::error_code failure;
    fs::create_directories(staging_, failure);
    if (failure)
      return Error{Error::Kind::failed, fmt::format("cannot make {}: {}", staging_.string(), failure.message()),
                   "check free space and permissions"};
    const auto bytes = write_when_there_is_room(stop);
    if (!bytes) return bytes.error();
    return SaveReport{checkpoint(), *bytes, {}};
  }

  Result<SaveReport> lead(const std::stop_token& stop) {
    remove_leftovers(place_.folder, state_.step, place_.attempt);
    auto report = write_own(stop);
    if (!report) return report;
    wrote_own_ = true;
    copy_.reset();
    if (const auto waited = wait_for_others(stop); !waited) return waited.error();
    if (const auto written = write_manifest(); !written) return written.error();
    if (const auto flushed = flush_folder(staging_); !flushed) return flushed.error();
    if (const auto placed = replace_folder(staging_, checkpoint()); !placed) return placed.error();
    if (!place_.keep) return report;
    auto removed = remove_oldest(place_.folder, state_.step, *place_.keep);
    if (!removed) return removed.error();
    report->removed = std::move(*removed);
    return report;
  }

  Result<void> wait_for_others(const std::stop_token& stop) const {
    const auto deadline = std::chrono::steady_clock::now() + place_.patience;
    std::error_code ignored;
    for (int rank = 1; rank < place_.ranks;) {
      if (fs::exists(file_of(rank), ignored)) {
        ++rank;
        continue;
      }
      if (const auto failed = find_failure()) return *failed;
      if (stop.stop_requested()) return misuse(fmt::format("the save of step {} was given up", state_.step));
      if (std::chrono::steady_clock::now() > deadline) return too_late(rank);
      std::this_thread::sleep_for(poll_interval);
    }
    return {};
  }

  std::optional<Error> find_failure() const {
    std::error_code ignored;
    for (int rank = 1; rank < place_.ranks; ++rank)
      for (const Error::Kind kind : {Error::Kind::failed, Error::Kind::refused}) {
        if (!fs::exists(failure_of(rank, kind), ignored)) continue;
        const auto reason = read_file(failure_of(rank, kind));
        return Error{
            kind, fmt::format("step {} was not saved: rank {}: {}", state_.step, rank, reason ? *reason : "it failed"),
            ""};
      }
    return std::nullopt;
  }

  Error too_late(int rank) const {
    return {
        Error::Kind::failed,
        fmt::format("step {} was not saved: rank {} has not finished {} within {} seconds", state_.step, rank,
                    file_of(rank).string(), std::chrono::duration_cast<std::chrono::seconds>(place_.patience).count()),
        "the folder of the run must be on a disk that all hosts share"};
  }

  Result<void> write_manifest() const {
    TrainingManifest manifest{state_, tensors_, {}};
    std::vector<Piece> pieces;
    for (int rank = 0; rank < place_.ranks; ++rank) {
      const auto file = open_piece_file(file_of(rank));
      if (!file) return file.error();
      if (file->identity != SaveIdentity{state_.step, place_.attempt})
        return misuse(fmt::format("{} is of another save", file_of(rank).string()));
      manifest.files.push_back({file->file.size(), file->header_checksum});
      for (const StoredPiece& stored : file->pieces) pieces.push_back(stored.piece);
    }
    if (auto covered = check_coverage(tensors_, pieces, checkpoint().string()); !covered) return covered;
    const auto text = print_manifest(manifest);
    if (!text) return text.error();
    return write_file_atomically(staging_ / manifest_name, *text);
  }

  SaverContext place_;
  std::vector<LogicalTensor> tensors_;
  TrainingState state_;
  std::shared_ptr<const HostCopy> copy_;
  std::atomic<std::uint64_t>& written_;
  DiskWait wait_;
  fs::path staging_;
  bool wrote_own_ = false;
};

}  // namespace

Result<void> CheckpointSaver::check_begin(const TrainingState& state) const {
  if (!finished()) return misuse(fmt::format("step {} is still being saved", *step_));
  if (!is_attempt(place_.attempt) || place_.ranks < 1 || place_.rank < 0 || place_.rank >= place_.ranks)
    return misuse(
        fmt::format("rank {} of {} in attempt \"{}\" cannot save", place_.rank, place_.ranks, place_.attempt));
  if (state.step < 0) return misuse(fmt::format("step {} cannot be saved", state.step));
  const auto printed = print_manifest({state, tensors_, {}});
  if (!printed) return printed.error();
  return {};
}

Result<void> CheckpointSaver::begin(const TrainingState& state, std::shared_ptr<const HostCopy> copy,
                                    std::function<void()> arrived) {
  if (step_ == state.step) return {};
  if (auto checked = check_begin(state); !checked) return checked;
  std::packaged_task<Result<SaveReport>(std::stop_token)> task(
      [save = std::make_shared<Save>(place_, tensors_, state, std::move(copy), written_,
                                     [this](const std::string& what) {
                                       const std::lock_guard guard(shortage_access_);
                                       shortage_ = what;
                                     }),
       arrived = std::move(arrived)](std::stop_token stop) {
        arrived();
        return save->run(std::move(stop));
      });
  step_ = state.step;
  written_ = 0;
  outcome_ = task.get_future().share();
  thread_ = std::jthread([task = std::move(task)](std::stop_token stop) mutable { task(std::move(stop)); });
  return {};
}

bool CheckpointSaver::finished(std::chrono::milliseconds within) const {
  return !outcome_.valid() || outcome_.wait_for(within) == std::future_status::ready;
}

std::optional<std::string> CheckpointSaver::take_shortage() {
  const std::lock_guard guard(shortage_access_);
  return std::exchange(shortage_, std::nullopt);
}

Result<SaveReport> CheckpointSaver::wait() {
  if (!outcome_.valid()) return misuse("no save was begun");
  return outcome_.get();
}

}  // namespace muster::checkpoint

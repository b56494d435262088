// Reads training checkpoints: any elements, whatever layout saved them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/piece_file.hpp"
#include "checkpoint/training_manifest.hpp"

namespace muster::checkpoint {

// Move-only. Reading is safe in several threads.
class TrainingCheckpoint {
 public:
  // Checks manifest, files, sizes and headers, and that every element is there; not yet the numbers.
  static Result<TrainingCheckpoint> open(const std::filesystem::path& path);
  TrainingCheckpoint(TrainingCheckpoint&&) noexcept;
  TrainingCheckpoint& operator=(TrainingCheckpoint&&) noexcept;
  ~TrainingCheckpoint();

  const std::filesystem::path& path() const { return path_; }
  const TrainingState& state() const { return manifest_.state; }
  std::span<const LogicalTensor> tensors() const { return manifest_.tensors; }
  const LogicalTensor* find(std::string_view tensor) const;

  // Numbers from first on, as many as out has. Pieces that are touched are checked whole, each once; damage is an
  // error, and then what out holds means nothing. Numbers that are not there are refused. out: of the state's type, a
  // whole number of them; floats are a state's that has floats.
  Result<void> read(std::string_view tensor, std::string_view state, std::int64_t first,
                    std::span<std::byte> out) const;
  Result<void> read(std::string_view tensor, std::string_view state, std::int64_t first, std::span<float> out) const {
    return read(tensor, state, first, std::as_writable_bytes(out));
  }
  // Every byte, by several threads; this thread is one of them.
  Result<void> verify(int threads) const;

 private:
  struct Place;
  using Places = std::vector<Place>;  // of one state, by first element

  TrainingCheckpoint(std::filesystem::path path, TrainingManifest manifest);
  Result<void> open_files();
  void index_pieces();
  Result<void> read_place(const Place& place, std::uint64_t begin, std::span<std::byte> out) const;
  Result<void> check_once(const Place& place) const;

  std::filesystem::path path_;
  TrainingManifest manifest_;
  std::vector<PieceFile> files_;
  std::map<std::string, const LogicalTensor*, std::less<>> tensors_;
  std::map<std::pair<std::string_view, std::string_view>, Places> places_;  // by tensor and state
};

struct PassedOver {
  std::filesystem::path path;
  Error reason;
};

struct NewestGood {
  std::optional<TrainingCheckpoint> checkpoint;  // absent: none is good
  std::vector<PassedOver> passed_over;           // newer ones, newest first
};

// The newest one in the folder whose every byte is as it was written.
NewestGood newest_good(const std::filesystem::path& folder, int threads);

}  // namespace muster::checkpoint

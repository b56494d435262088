#include "checkpoint/training_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/checksum.hpp"

namespace muster::checkpoint {

namespace fs = std::filesystem;

struct TrainingCheckpoint::Place {
  std::size_t file = 0;
  std::size_t piece = 0;  // in the file
  std::int64_t first = 0, count = 0;
  std::unique_ptr<std::atomic<bool>> checked = std::make_unique<std::atomic<bool>>(false);
};

namespace {

constexpr std::uint64_t longest_manifest = 100'000'000;

Error refusal(const fs::path& path, const std::string& what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", path.string(), what), "resume from another checkpoint"};
}

Result<TrainingManifest> read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_name;
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return refusal(folder, fmt::format("no training checkpoint: it has no {}", manifest_name));
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  if (file->size() > longest_manifest) return refusal(path, fmt::format("{} bytes are too long", file->size()));
  const auto text = file->beginning(file->size());
  if (!text) return text.error();
  return parse_manifest(*text, path.string());
}

}  // namespace

TrainingCheckpoint::TrainingCheckpoint(fs::path path, TrainingManifest manifest)
    : path_(std::move(path)), manifest_(std::move(manifest)) {}
TrainingCheckpoint::TrainingCheckpoint(TrainingCheckpoint&&) noexcept = default;
TrainingCheckpoint& TrainingCheckpoint::operator=(TrainingCheckpoint&&) noexcept = default;
TrainingCheckpoint::~TrainingCheckpoint() = default;

Result<TrainingCheckpoint> TrainingCheckpoint::open(const fs::path& path) {
  auto manifest = read_manifest(path);
  if (!manifest) return manifest.error();
  TrainingCheckpoint checkpoint(path, std::move(*manifest));
  if (const auto opened = checkpoint.open_files(); !opened) return opened.error();
  checkpoint.index_pieces();
  return checkpoint;
}

Result<void> TrainingCheckpoint::open_files() {
  std::vector<Piece> pieces;
  std::optional<SaveIdentity> identity;
  for (std::size_t i = 0; i < manifest_.files.size(); ++i) {
    const fs::path path = path_ / piece_file_name(i, manifest_.files.size());
    auto file = open_piece_file(path);
    if (!file) return file.error();
    if (file->file.size() != manifest_.files[i].size)
      return refusal(path, fmt::format("{} bytes, and {} were written", file->file.size(), manifest_.files[i].size));
    if (file->header_checksum != manifest_.files[i].header_checksum)
      return refusal(path, "damaged, or of another checkpoint: its header is not the one that the manifest names");
    if (file->identity.step != manifest_.state.step || (identity && *identity != file->identity))
      return refusal(path, fmt::format("of another save, of step {}", file->identity.step));
    identity = file->identity;
    for (const StoredPiece& stored : file->pieces) pieces.push_back(stored.piece);
    files_.push_back(std::move(*file));
  }
  return check_coverage(manifest_.tensors, pieces, path_.string());
}

// Names are views of the manifest's, which stay where they are when the checkpoint is moved.
void TrainingCheckpoint::index_pieces() {
  for (const LogicalTensor& tensor : manifest_.tensors) {
    tensors_.emplace(tensor.name, &tensor);
    for (const std::string& state : tensor.states) places_[{tensor.name, state}];
  }
  for (std::size_t file = 0; file < files_.size(); ++file)
    for (std::size_t i = 0; i < files_[file].pieces.size(); ++i) {
      const Piece& piece = files_[file].pieces[i].piece;
      places_.at({piece.tensor, piece.state}).push_back({file, i, piece.first, piece.count});
    }
  for (auto& [name, places] : places_) std::ranges::sort(places, {}, &Place::first);
}

const LogicalTensor* TrainingCheckpoint::find(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : found->second;
}

Result<void> TrainingCheckpoint::read(std::string_view tensor, std::string_view state, std::int64_t first,
                                      std::span<std::byte> out) const {
  const auto found = places_.find({tensor, state});
  if (found == places_.end())
    return Error{Error::Kind::bad_input, fmt::format("{} has no {} of {}", path_.string(), state, tensor),
                 "resume with the model and the optimizer that it was saved with"};
  const std::int64_t numbers = number_count(*find(tensor), state);
  const std::int64_t width = spec::bytes_per_element(form_of(state).type), count = std::ssize(out) / width;
  if (std::ssize(out) % width != 0) throw std::logic_error("a part of a number is asked for");
  if (first < 0 || count > numbers || first > numbers - count)
    return Error{
        Error::Kind::bad_input,
        fmt::format("{} has {} elements, and {} from {} on are not among them", tensor, numbers, count, first), ""};
  const Places& places = found->second;
  auto place = std::ranges::upper_bound(places, first, {}, &Place::first);
  if (place != places.begin()) --place;
  while (!out.empty()) {
    const std::int64_t within = first - place->first;
    const std::int64_t taken = std::min(place->count - within, std::ssize(out) / width);
    const auto bytes = static_cast<std::size_t>(taken * width);
    const auto begin = static_cast<std::uint64_t>(within * width);
    if (auto read = read_place(*place, begin, out.first(bytes)); !read) return read;
    out = out.subspan(bytes);
    first += taken;
    ++place;
  }
  return {};
}

// A piece that is wanted whole is checked where it has been read to.
Result<void> TrainingCheckpoint::read_place(const Place& place, std::uint64_t begin, std::span<std::byte> out) const {
  const PieceFile& file = files_[place.file];
  const StoredPiece& stored = file.pieces[place.piece];
  const bool whole = out.size() == stored.bytes();
  if (!whole)
    if (auto checked = check_once(place); !checked) return checked;
  if (auto read = file.file.read_at(stored.begin + begin, out); !read) return read;
  if (!whole || place.checked->load()) return {};
  const std::uint64_t seen = checksum_of(out);
  if (seen != stored.checksum) return damaged_piece(file, stored, seen);
  place.checked->store(true);
  return {};
}

Result<void> TrainingCheckpoint::check_once(const Place& place) const {
  if (place.checked->load()) return {};
  const PieceFile& file = files_[place.file];
  auto verified = verify_piece(file, file.pieces[place.piece]);
  if (verified) place.checked->store(true);
  return verified;
}

Result<void> TrainingCheckpoint::verify(int threads) const {
  std::vector<const Place*> all;
  for (const auto& [name, places] : places_)
    for (const Place& place : places) all.push_back(&place);
  // In their order on the disk.
  std::ranges::sort(all, {}, [](const Place* place) { return std::pair(place->file, place->piece); });
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  Result<void> outcome;
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      auto checked = check_once(*all[i]);
      if (checked) continue;
      const std::lock_guard guard(mutex);
      if (outcome) outcome = std::move(checked);
      next = all.size();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  return outcome;
}

NewestGood newest_good(const fs::path& folder, int threads) {
  NewestGood answer;
  for (const FoundCheckpoint& found : find_checkpoints(folder)) {
    auto opened = TrainingCheckpoint::open(found.path);
    const auto verified = opened ? opened->verify(threads) : Result<void>(opened.error());
    if (verified && opened->state().step == found.step) {
      answer.checkpoint = std::move(*opened);
      return answer;
    }
    answer.passed_over.push_back(
        {found.path, verified ? refusal(found.path, fmt::format("renamed: it is of step {}", opened->state().step))
                              : verified.error()});
  }
  return answer;
}

}  // namespace muster::checkpoint

#include "train/objectives/reference_scores.hpp"

#include <bit>
#include <cstring>
#include <span>

#include "base/checksum.hpp"
#include "system/files.hpp"
#include "train/memory_use.hpp"
#include "train/objectives/sequence_rows.hpp"

namespace muster::train {
namespace {

// A file has this, then the scores.
struct ScoreFileStart {
  std::uint64_t magic = 0x3145524f4353534dU;  // "MSSCORE1"
  std::uint64_t samples = 0;
  std::uint64_t checksum = 0;  // of the scores
};

std::uint64_t checksum_of_scores(const SampleScores& scores) { return checksum(std::as_bytes(std::span(scores))); }

// Bits of the scores, of which each rank has some and zeros for the others, and whether memory ran out.
at::Tensor score_share(const DatasetVisit& visit, const VisitContext& context, ObjectivePass& passes) {
  at::Tensor bits = at::zeros({visit.dataset.size() + 1}, at::kLong);
  auto* bit = bits.mutable_data_ptr<std::int64_t>();
  const bool done = visit_dataset(visit, context, [&](const data::MicroBatch& batch) {
    const SampleScores sums = sums_of_sequences(batch, passes.log_probabilities(batch));
    for (std::size_t i = 0; i < sums.size(); ++i) bit[batch.samples[i]] = std::bit_cast<std::int64_t>(sums[i]);
  });
  bit[visit.dataset.size()] = done ? 0 : 1;
  return bits.to(context.device);
}

}  // namespace

std::optional<SampleScores> read_sample_scores(const std::string& path, std::int64_t samples) {
  const auto text = read_file(path);
  ScoreFileStart start;
  SampleScores scores(static_cast<std::size_t>(samples));
  const std::size_t bytes = scores.size() * sizeof(double);
  if (!text || text->size() != sizeof start + bytes) return std::nullopt;
  std::memcpy(&start, text->data(), sizeof start);
  std::memcpy(scores.data(), text->data() + sizeof start, bytes);
  const bool whole = start.magic == ScoreFileStart{}.magic && start.samples == scores.size() &&
                     start.checksum == checksum_of_scores(scores);
  return whole ? std::optional(std::move(scores)) : std::nullopt;
}

Result<void> write_sample_scores(const std::string& path, const SampleScores& scores) {
  ScoreFileStart start;
  start.samples = scores.size();
  start.checksum = checksum_of_scores(scores);
  std::string text(reinterpret_cast<const char*>(&start), sizeof start);
  text.append(reinterpret_cast<const char*>(scores.data()), scores.size() * sizeof(double));
  return write_file_atomically(path, text);
}

SampleScores score_samples(DatasetVisit visit, const VisitContext& context, ObjectivePass& passes) {
  for (;;) {
    const at::Tensor bits = score_share(visit, context, passes);
    context.ranks.all_reduce(bits);
    const at::Tensor host = bits.cpu();
    context.ranks.check();
    const auto* bit = host.const_data_ptr<std::int64_t>();
    if (bit[visit.dataset.size()] == 0) {
      SampleScores scores;
      for (std::int64_t i = 0; i < visit.dataset.size(); ++i) scores.push_back(std::bit_cast<double>(bit[i]));
      return scores;
    }
    TORCH_CHECK_WITH(OutOfMemoryError, visit.micro_batch > 1, "one pair at a time of the reference runs out of memory");
    visit.micro_batch = (visit.micro_batch + 1) / 2;
    release_cached_memory(context.device);
  }
}

}  // namespace muster::train

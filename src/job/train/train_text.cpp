#include "job/train/train_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runs/run_format.hpp"

namespace muster::job {
namespace {

constexpr double crowded = 0.9;  // share of a device's memory beyond which a user is warned

double in_gibibytes(ByteCount bytes) { return static_cast<double>(bytes.value) / (1 << 30); }

// Two significant digits, whatever the size: 0.42, 12.7, 0.0031.
std::string norm_words(double norm) {
  if (!std::isfinite(norm)) return fmt::format("{}", norm);
  if (norm != 0 && norm < 0.01) return fmt::format("{:.1e}", norm);
  return fmt::format(fmt::runtime(norm < 10 ? "{:.2f}" : "{:.1f}"), norm);
}

// Ranks that share a GPU are distinguished by their own number.
std::string device_words(const RankReading& reading, const std::vector<RankReading>& all) {
  if (!reading.gpu) return fmt::format("rank {} (CPU)", reading.rank);
  const auto sharing = std::ranges::count(all, reading.gpu, &RankReading::gpu);
  return sharing > 1 ? fmt::format("GPU {} rank {}", *reading.gpu, reading.rank) : fmt::format("GPU {}", *reading.gpu);
}

// What is in use on the reading's device: as the device reports, else what its ranks have reserved.
ByteCount taken(const RankReading& reading, const std::vector<RankReading>& all) {
  ByteCount sum;
  for (const RankReading& other : all)
    if (other.gpu == reading.gpu) sum = sum + std::max(other.reserved, other.allocated);
  return reading.used ? std::max(sum, *reading.used) : sum;
}

std::string warning(const RankReading& reading, ByteCount gone) {
  const std::string device = reading.gpu ? fmt::format("GPU {}", *reading.gpu) : "the host";
  const double share = static_cast<double>(gone.value) / static_cast<double>(reading.total.value);
  return fmt::format(
      "{} has {:.1f} % of its memory taken ({:.1f} of {:.1f} GiB): a longer sequence may not fit; try a smaller "
      "training.micro_batch_size or training.sequence_length, or training.gradient_checkpointing",
      device, share * 100, in_gibibytes(gone), in_gibibytes(reading.total));
}

}  // namespace

std::string step_line(const TrainProgress& progress) {
  std::string line = progress.steps > 0 ? fmt::format("step {}/{}", progress.step, progress.steps)
                                        : fmt::format("step {}", progress.step);
  if (progress.epoch) line += fmt::format("  epoch {:.2f}", *progress.epoch);
  if (progress.reward) line += fmt::format("  reward {:.3f}", *progress.reward);
  if (progress.answer_tokens) line += fmt::format("  length {:.1f}", *progress.answer_tokens);
  line += fmt::format("  loss {}",
                      std::isfinite(progress.loss) ? runs::loss_words(progress.loss) : fmt::format("{}", progress.loss));
  if (progress.preferred) line += fmt::format("  preferred {:.1f} %", *progress.preferred * 100);
  if (progress.margin) line += fmt::format("  margin {:.3g}", *progress.margin);
  line += fmt::format("  lr {:.1e}  norm {}  {} tokens/s", progress.learning_rate, norm_words(progress.gradient_norm),
                      runs::counted(progress.tokens_per_second));
  if (progress.flop_utilization) line += fmt::format("  {:.1f} % MFU", *progress.flop_utilization * 100);
  if (progress.memory) line += "  " + to_string(*progress.memory);
  if (progress.skipped_steps > 0) line += fmt::format("  {} skipped", progress.skipped_steps);
  if (progress.seconds_left && std::isfinite(*progress.seconds_left))
    line += fmt::format("  {} left", runs::span_words(std::max(0.0, std::round(*progress.seconds_left))));
  return line;
}

std::string memory_report(const std::vector<RankReading>& readings) {
  const bool on_gpus =
      std::ranges::any_of(readings, [](const RankReading& reading) { return reading.gpu.has_value(); });
  std::string text = on_gpus ? "GPU Memory Summary:\n" : "Memory Summary:\n";
  for (const RankReading& reading : readings) {
    text +=
        fmt::format("  {}: {:.2f} GB allocated, {:.2f} GB reserved, {:.2f} GB total", device_words(reading, readings),
                    in_gibibytes(reading.allocated), in_gibibytes(reading.reserved), in_gibibytes(reading.total));
    if (reading.utilization) text += fmt::format(", GPU utilization {:.0f}%", *reading.utilization * 100);
    text += '\n';
  }
  return text;
}

std::vector<MemoryWarning> memory_warnings(const std::vector<RankReading>& readings) {
  std::vector<MemoryWarning> warnings;
  for (const RankReading& reading : readings) {
    const ByteCount gone = taken(reading, readings);
    const bool over = static_cast<double>(gone.value) > crowded * static_cast<double>(reading.total.value);
    if (reading.total.value <= 0 || !over) continue;
    if (std::ranges::find(warnings, reading.gpu, &MemoryWarning::gpu) == warnings.end())
      warnings.push_back({reading.gpu, warning(reading, gone)});
  }
  return warnings;
}

}  // namespace muster::job

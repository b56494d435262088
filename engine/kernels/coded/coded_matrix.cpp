#include "kernels/coded/coded_matrix.hpp"

#include <algorithm>

#include "kernels/kernel_table.hpp"

namespace muster::kernels {
namespace {

constexpr std::int64_t runs_at_once = 64;

// use(row of the matrix, first input, inputs, elements before) for each row's part of [first, first + count).
template <class Use>
void over_rows(const CodingJob& job, std::int64_t first, std::int64_t count, Use&& use) {
  const std::int64_t inputs = job.panels.inputs;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = (first + done) / inputs, input = (first + done) % inputs;
    const std::int64_t here = std::min(count - done, inputs - input);
    use(job.first_row + row, input, here, done);
    done += here;
  }
}

// Codes of one row, in ascending order of inputs: the first of a group clears what the group held.
void place_nibbles(NibbleGroup* groups, std::int64_t lane, std::int64_t input, std::int64_t count,
                   const std::uint8_t* codes) {
  for (std::int64_t k = input; k < input + count;) {
    const std::int64_t nibble = k % group_inputs;
    const std::int64_t here = std::min(group_inputs - nibble, input + count - k);
    std::uint32_t& word = groups[k / group_inputs].words[lane];
    std::uint32_t bits = nibble == 0 ? 0 : word;
    for (std::int64_t i = 0; i < here; ++i) {
      const std::int64_t shift = 4 * (nibble + i);
      bits = (bits & ~(0xFU << shift)) | std::uint32_t{codes[k - input + i]} << shift;
    }
    word = bits;
    k += here;
  }
}

float value_of(const CodedPanels& panels, std::int64_t row, std::int64_t k) {
  const std::int64_t panel = row / panel_columns, lane = row % panel_columns;
  if (panels.has_bytes()) return widen(panels.bytes(panel)[k * panel_columns + lane]);
  const std::uint32_t word = panels.groups(panel)[k / group_inputs].words[lane];
  return code_table(panels.form.code).values[(word >> (4 * (k % group_inputs))) & 0xFU];
}

std::int64_t slot_of(const CodedPanels& panels, std::int64_t row, std::int64_t k) {
  const std::int64_t phase = panels.crosses_rows() ? panels.phases(row / panel_columns)[row % panel_columns] : 0;
  return (k + phase) / panels.run();
}

float& scale_at(const CodedPanels& panels, std::int64_t row, std::int64_t slot) {
  return panels.scales(row / panel_columns)[slot * panel_columns + row % panel_columns];
}

// The scale of the run that these elements are.
void place_scale(const CodingJob& job, std::int64_t first, std::int64_t count, float scale) {
  over_rows(job, first, count, [&](std::int64_t row, std::int64_t input, std::int64_t, std::int64_t) {
    scale_at(job.panels, row, slot_of(job.panels, row, input)) = scale;
  });
}

// A byte is of one run: runs of 4 bits have an even length. What the last of an odd number shares its byte with is zero.
void place_flat_codes(const CodingJob& job, std::int64_t first, std::int64_t count, const std::uint8_t* codes) {
  if (job.panels.has_bytes()) {
    std::copy(codes, codes + count, job.flat_codes + first);
    return;
  }
  const std::uint8_t zero = code_table(job.panels.form.code).code_of(0.0F);
  for (std::int64_t i = 0; i < count; i += 2)
    job.flat_codes[(first + i) / 2] =
        static_cast<std::uint8_t>(codes[i] << 4 | (i + 1 < count ? codes[i + 1] : zero));
}

}  // namespace

void place_codes(const CodingJob& job, std::int64_t first, std::int64_t count, const std::uint8_t* codes) {
  if (job.flat_codes != nullptr) return place_flat_codes(job, first, count, codes);
  over_rows(job, first, count, [&](std::int64_t row, std::int64_t input, std::int64_t here, std::int64_t done) {
    const std::int64_t panel = row / panel_columns, lane = row % panel_columns;
    if (!job.panels.has_bytes()) return place_nibbles(job.panels.groups(panel), lane, input, here, codes + done);
    std::int8_t* bytes = job.panels.bytes(panel) + input * panel_columns + lane;
    for (std::int64_t i = 0; i < here; ++i) bytes[i * panel_columns] = static_cast<std::int8_t>(codes[done + i]);
  });
}

void place_magnitude(const CodingJob& job, std::int64_t first, std::int64_t count, float magnitude) {
  if (job.flat_magnitudes != nullptr) {
    job.flat_magnitudes[first / job.panels.run()] = magnitude;
    return;
  }
  place_scale(job, first, count, job.panels.has_bytes() ? magnitude * byte_step : magnitude);
}

std::size_t CodedMatrix::bytes_needed(std::int64_t outputs, std::int64_t inputs, const CodedForm& form) {
  const CodedPanels panels{form, outputs, inputs, nullptr};
  const std::int64_t scales = panels.slots() * panel_columns * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t phases = panels.crosses_rows() ? panel_columns * std::int64_t{sizeof(std::uint16_t)} : 0;
  return static_cast<std::size_t>(panels.panels() * (panels.panel_bytes() + scales + phases));
}

// The phases of these rows. Rows of the last panel that the matrix lacks have scales of zero; the last row brings them
// along.
CodingJob CodedMatrix::begin_rows(std::int64_t first_row, std::int64_t rows) {
  const bool ends = first_row + rows == outputs();
  const std::int64_t last = ends ? panels_.panels() * panel_columns : first_row + rows;
  for (std::int64_t row = first_row; row < last; ++row) {
    if (panels_.crosses_rows()) {
      const std::int64_t before = row < outputs() ? (row - first_row) * inputs() % panels_.run() : 0;
      panels_.phases(row / panel_columns)[row % panel_columns] = static_cast<std::uint16_t>(before);
    }
    for (std::int64_t slot = 0; row >= outputs() && slot < panels_.slots(); ++slot) scale_at(panels_, row, slot) = 0;
  }
  return {.panels = panels_, .first_row = first_row, .rows = rows};
}

void CodedMatrix::code_rows(ThreadTeam& team, std::int64_t first_row, std::int64_t rows, const void* row_major,
                            Scalar from) {
  CodingJob job = begin_rows(first_row, rows);
  job.plain = row_major;
  job.plain_scalar = from;
  // Two runs may have parts of one group where they cross rows: these are coded one after another.
  const std::int64_t runs = runs_of(rows);
  team.split(runs, panels_.crosses_rows() ? runs : runs_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().code_runs(job, begin, end); });
}

void CodedMatrix::fill_codes(std::int64_t first_row, std::int64_t rows, const std::uint8_t* codes,
                             std::span<const float> scales) {
  const CodingJob job = begin_rows(first_row, rows);
  const std::int64_t run = panels_.run();
  std::vector<std::uint8_t> unpacked(static_cast<std::size_t>(panels_.has_bytes() ? 0 : run));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * run, count = std::min(run, job.elements() - first);
    if (panels_.has_bytes()) {
      place_codes(job, first, count, codes + first);
      place_magnitude(job, first, count, scales[i]);
      continue;
    }
    for (std::int64_t e = 0; e < count; ++e) {
      const std::uint8_t both = codes[(first + e) / 2];
      unpacked[static_cast<std::size_t>(e)] = (first + e) % 2 == 0 ? both >> 4 : both & 0xFU;
    }
    place_codes(job, first, count, unpacked.data());
    place_magnitude(job, first, count, scales[i]);
  }
}

std::vector<float> CodedMatrix::scales_of(std::int64_t first_row, std::int64_t rows) const {
  std::vector<float> scales(static_cast<std::size_t>(runs_of(rows)));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::int64_t element = static_cast<std::int64_t>(i) * panels_.run();
    const std::int64_t row = first_row + element / inputs();
    scales[i] = scale_at(panels_, row, slot_of(panels_, row, element % inputs()));
  }
  return scales;
}

void CodedMatrix::replace_scales(std::int64_t first_row, std::int64_t rows, std::span<const float> scales) {
  const CodingJob job{.panels = panels_, .first_row = first_row, .rows = rows};
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * panels_.run();
    place_scale(job, first, std::min(panels_.run(), job.elements() - first), scales[i]);
  }
}

void CodedMatrix::copy_row(std::int64_t row, void* out, Scalar to) const {
  with_element(panels_.form.rounded, [&](auto rounded) {
    with_element(to, [&](auto element) {
      auto* target = static_cast<decltype(element)*>(out);
      for (std::int64_t k = 0; k < inputs(); ++k) {
        narrow(value_of(panels_, row, k) * scale_at(panels_, row, slot_of(panels_, row, k)), rounded);
        narrow(widen(rounded), target[k]);
      }
    });
  });
}

void code_rows(ThreadTeam& team, const CodedForm& form, const PlainRows& from, const CodedRows& to) {
  const CodingJob job{.panels = {form, from.rows, from.inputs, nullptr},
                      .plain = from.row_major,
                      .plain_scalar = from.scalar,
                      .rows = from.rows,
                      .flat_codes = to.codes.data(),
                      .flat_magnitudes = to.magnitudes.data()};
  team.split(std::ssize(to.magnitudes), runs_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().code_runs(job, begin, end); });
}

}  // namespace muster::kernels

#include "tensor/packed_panels.hpp"

#include <algorithm>

#include "tensor/cpu_packed_weight.hpp"

namespace muster::tensor {
namespace {

using kernels::CodedPanels;
using kernels::panel_columns;

constexpr std::int64_t bytes_of_word = 4;

CodedPanels panels_of(std::int64_t outputs, std::int64_t inputs, const WeightForm& form) {
  return {coded_form(form.type, *form.packing), outputs, inputs, nullptr};
}

// Words of a panel's codes, sixteen in a group.
std::int64_t word_groups(const CodedPanels& panels) {
  return panels.has_bytes() ? (panels.inputs + bytes_of_word - 1) / bytes_of_word : panels.panel_groups();
}

// The parts of a packed weight's memory.
struct PanelViews {
  at::Tensor codes;   // [panels, groups, 16], int32; in the host's memory, of 8 bits: [panels, inputs, 16], int8
  at::Tensor scales;  // [panels, slots, 16], float32
  at::Tensor phases;  // [panels, 1, 16], int16; undefined where runs end with rows
};

PanelViews views_of(const Weight& weight, bool on_host) {
  const CodedPanels panels = panels_of(weight.outputs, weight.inputs, weight.form());
  std::int64_t begin = 0;
  const auto take = [&](at::ScalarType type, std::int64_t rows) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(type));
    const std::int64_t bytes = panels.panels() * rows * panel_columns * size;
    const at::Tensor part = weight.storage.narrow(0, begin, bytes).view(type);
    begin += bytes;
    return part.view({panels.panels(), rows, panel_columns});
  };
  PanelViews views;
  views.codes = on_host && panels.has_bytes() ? take(at::kChar, panels.inputs) : take(at::kInt, word_groups(panels));
  views.scales = take(at::kFloat, panels.slots());
  if (panels.crosses_rows()) views.phases = take(at::kShort, 1);
  return views;
}

// Bytes [panels, inputs, 16] as words of four inputs.
at::Tensor in_words(const at::Tensor& bytes) {
  const std::int64_t inputs = bytes.size(1), missing = -inputs & (bytes_of_word - 1);
  const at::Tensor whole = missing == 0 ? bytes : at::constant_pad_nd(bytes, {0, 0, 0, missing});
  const at::Tensor groups = whole.view({bytes.size(0), -1, bytes_of_word, panel_columns});
  return groups.transpose(2, 3).contiguous().view(at::kInt).squeeze(3);
}

// Lanes [first_row, first_row + rows) of `to` become the first ones of `from`.
void copy_lanes(const at::Tensor& to, std::int64_t first_row, std::int64_t rows, const at::Tensor& from) {
  for (std::int64_t done = 0; done < rows;) {
    const std::int64_t row = first_row + done, lane = row % panel_columns, from_lane = done % panel_columns;
    const std::int64_t whole = lane == 0 && from_lane == 0 ? (rows - done) / panel_columns : 0;
    if (whole > 0) {
      to.narrow(0, row / panel_columns, whole).copy_(from.narrow(0, done / panel_columns, whole));
      done += whole * panel_columns;
      continue;
    }
    const std::int64_t here = std::min({panel_columns - lane, panel_columns - from_lane, rows - done});
    to.select(0, row / panel_columns)
        .narrow(1, lane, here)
        .copy_(from.select(0, done / panel_columns).narrow(1, from_lane, here));
    done += here;
  }
}

}  // namespace

WordPlaces word_places(std::int64_t outputs, std::int64_t inputs, const WeightForm& form) {
  const CodedPanels panels = panels_of(outputs, inputs, form);
  const std::int64_t lanes = panels.panels() * panel_columns;
  WordPlaces places;
  places.slots = panels.slots();
  places.has_phases = panels.crosses_rows();
  places.scales = lanes * word_groups(panels) * bytes_of_word;
  places.phases = places.scales + lanes * places.slots * std::int64_t{sizeof(float)};
  places.bytes = places.phases + (places.has_phases ? lanes * std::int64_t{sizeof(std::uint16_t)} : 0);
  return places;
}

void copy_packed_rows(const Weight& weight, std::int64_t first_row, const Weight& rows) {
  const PanelViews to = views_of(weight, false), from = views_of(rows, true);
  // Bytes become words where they are going.
  const at::Tensor codes = from.codes.to(weight.storage.device());
  copy_lanes(to.codes, first_row, rows.outputs, codes.scalar_type() == at::kChar ? in_words(codes) : codes);
  copy_lanes(to.scales, first_row, rows.outputs, from.scales);
  if (to.phases.defined()) copy_lanes(to.phases, first_row, rows.outputs, from.phases);
}

void copy_packed_scales(const Weight& weight, const Weight& from) {
  views_of(weight, false).scales.copy_(views_of(from, false).scales);
}

}  // namespace muster::tensor

#include "tensor/packed_panels.hpp"

#include <algorithm>

#include "tensor/cpu_packed_weight.hpp"

namespace muster::tensor {
namespace {

using kernels::CodedPanels;
using kernels::panel_columns;

// Numbers that are unpacked at once; what is made on the way is some times as large.
constexpr std::int64_t most_at_once = std::int64_t{1} << 22;

CodedPanels panels_of(const Weight& weight) {
  return {coded_form(weight.type, *weight.packing), weight.outputs, weight.inputs, nullptr};
}

// The parts of a packed weight's memory.
struct PanelViews {
  at::Tensor codes;   // [panels, inputs, 16], int8; of 4 bits [panels, groups, 16], int32: eight codes each
  at::Tensor scales;  // [panels, slots, 16], float32
  at::Tensor phases;  // [panels, 1, 16], int16; undefined where runs end with rows
};

PanelViews views_of(const Weight& weight) {
  const CodedPanels panels = panels_of(weight);
  std::int64_t begin = 0;
  const auto take = [&](at::ScalarType type, std::int64_t rows) {
    const std::int64_t bytes = panels.panels() * rows * panel_columns * static_cast<std::int64_t>(c10::elementSize(type));
    const at::Tensor part = weight.storage.narrow(0, begin, bytes).view(type);
    begin += bytes;
    return part.view({panels.panels(), rows, panel_columns});
  };
  PanelViews views;
  views.codes = panels.has_bytes() ? take(at::kChar, panels.inputs) : take(at::kInt, panels.panel_groups());
  views.scales = take(at::kFloat, panels.slots());
  if (panels.crosses_rows()) views.phases = take(at::kShort, 1);
  return views;
}

// [panels, numbers, 16] → [rows, numbers]
at::Tensor by_row(const at::Tensor& panels) {
  return panels.transpose(1, 2).reshape({panels.size(0) * panel_columns, panels.size(1)});
}

// [rows, inputs], float32
at::Tensor values_of(const CodedPanels& panels, const at::Tensor& codes, const at::Tensor& values) {
  if (panels.has_bytes()) return by_row(codes).to(at::kFloat);
  const at::Tensor shifts = at::arange(0, 32, 4, codes.options());
  const at::Tensor places = codes.transpose(1, 2).unsqueeze(3).bitwise_right_shift(shifts).bitwise_and_(15);
  const at::Tensor found = values.index_select(0, places.reshape({-1}));
  return found.view({-1, panels.panel_groups() * kernels::group_inputs}).narrow(1, 0, panels.inputs);
}

// The same of the scales.
at::Tensor scales_of(const CodedPanels& panels, const at::Tensor& scales, const at::Tensor& phases) {
  const at::Tensor rows = by_row(scales);
  if (panels.has_bytes()) return rows;
  if (!phases.defined())
    return rows.unsqueeze(2).expand({rows.size(0), rows.size(1), panels.run()}).reshape({rows.size(0), panels.inputs});
  const at::Tensor inputs = at::arange(panels.inputs, phases.options().dtype(at::kLong));
  // Lanes behind the last row were never filled: whatever phase they have, a slot that is there.
  return rows.gather(1, (by_row(phases) + inputs).floor_divide(panels.run()).clamp(0, panels.slots() - 1));
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

at::Tensor code_values(spec::PackedCode code, at::Device device) {
  if (code == spec::PackedCode::int8) return {};
  const bool normal = code == spec::PackedCode::nf4;
  const auto& table = kernels::code_table(normal ? kernels::Code::nf4 : kernels::Code::fp4).values;
  at::Tensor values = at::empty({std::ssize(table)}, at::kFloat);
  std::ranges::copy(table, values.mutable_data_ptr<float>());
  return values.to(device);
}

at::Tensor unpacked(const Weight& weight, const at::Tensor& values) {
  return unpacked_rows(weight, values, 0, weight.outputs);
}

at::Tensor unpacked_rows(const Weight& weight, const at::Tensor& values, std::int64_t first_row, std::int64_t rows) {
  const CodedPanels panels = panels_of(weight);
  const PanelViews views = views_of(weight);
  at::Tensor matrix = at::empty({rows, weight.inputs}, weight.storage.options().dtype(weight.type));
  const std::int64_t step = std::max<std::int64_t>(1, most_at_once / (panel_columns * weight.inputs));
  const std::int64_t last_row = first_row + rows, last = (last_row + panel_columns - 1) / panel_columns;
  for (std::int64_t first = first_row / panel_columns; first < last; first += step) {
    const std::int64_t count = std::min(step, last - first);
    const auto part = [&](const at::Tensor& all) { return all.defined() ? all.narrow(0, first, count) : all; };
    const at::Tensor numbers = values_of(panels, part(views.codes), values)
                                   .mul(scales_of(panels, part(views.scales), part(views.phases)));
    const std::int64_t begin = std::max(first_row, first * panel_columns);
    const std::int64_t end = std::min(last_row, (first + count) * panel_columns);
    matrix.narrow(0, begin - first_row, end - begin)
        .copy_(numbers.narrow(0, begin - first * panel_columns, end - begin));
  }
  return matrix;
}

void copy_packed_rows(const Weight& weight, std::int64_t first_row, const Weight& rows) {
  const PanelViews to = views_of(weight), from = views_of(rows);
  copy_lanes(to.codes, first_row, rows.outputs, from.codes);
  copy_lanes(to.scales, first_row, rows.outputs, from.scales);
  if (to.phases.defined()) copy_lanes(to.phases, first_row, rows.outputs, from.phases);
}

void copy_packed_scales(const Weight& weight, const Weight& from) { views_of(weight).scales.copy_(views_of(from).scales); }

}  // namespace muster::tensor

// Codes to numbers, for one kind of lanes.
#pragma once

#include "kernels/coded/coded_panels.hpp"
#include "kernels/row_access.hpp"

namespace muster::kernels {

template <class L>
struct CodedPanelKernels {
  static L scale_at(const CodedPanels& panels, std::int64_t panel, std::int64_t k) {
    const float* scales = panels.scales(panel);
    if (!panels.crosses_rows()) return L::load(scales + k / panels.run() * panel_columns);
    const std::uint16_t* phases = panels.phases(panel);
    float lanes[panel_columns];
    for (std::int64_t r = 0; r < panel_columns; ++r)
      lanes[r] = scales[(k + phases[r]) / panels.run() * panel_columns + r];
    return L::load(static_cast<const float*>(lanes));
  }

  template <class Element>
  [[gnu::always_inline]] static void store_number(L value, L scale, float* target) {
    L number = value * scale;
    if constexpr (sizeof(Element) < sizeof(float)) number = rounded<L, Element>(number);
    number.store(target);
  }

  template <class Element>
  static void decode_bytes(const CodedPanels& panels, std::int64_t panel, std::int64_t k, std::int64_t length,
                           float* ready) {
    const std::int8_t* codes = panels.bytes(panel) + k * panel_columns;
    const L scale = scale_at(panels, panel, k);
    for (std::int64_t i = 0; i < length * panel_columns; i += panel_columns)
      store_number<Element>(L::load(static_cast<const std::int8_t*>(codes) + i), scale, ready + i);
  }

  template <class Element, int... places>
  [[gnu::always_inline]] static void decode_group(L table, typename L::Words words, const L* scales, std::int64_t step,
                                                  float* ready, std::integer_sequence<int, places...>) {
    (store_number<Element>(L::template look_up<places>(table, words), scales[places * step],
                           ready + places * panel_columns),
     ...);
  }

  template <class Element>
  static void decode_nibbles(const CodedPanels& panels, std::int64_t panel, std::int64_t k, std::int64_t length,
                             float* ready) {
    const L table = L::load(code_table(panels.form.code).values.data());
    const NibbleGroup* groups = panels.groups(panel) + k / group_inputs;
    const std::int64_t steady = panels.steady_inputs();
    const bool one_scale = steady >= group_inputs;
    L scales[group_inputs];
    for (std::int64_t i = 0; i < length; i += group_inputs) {
      if (one_scale) {
        if (i == 0 || (k + i) % steady == 0) scales[0] = scale_at(panels, panel, k + i);
      } else {
        for (std::int64_t j = 0; j < group_inputs; ++j)
          scales[j] = scale_at(panels, panel, std::min(k + i + j, panels.inputs - 1));
      }
      decode_group<Element>(table, L::load_words(static_cast<const std::uint32_t*>(groups[i / group_inputs].words)),
                            static_cast<const L*>(scales), one_scale ? 0 : 1, ready + i * panel_columns,
                            std::make_integer_sequence<int, group_inputs>());
    }
  }

  // Inputs k to k + length of a panel, as [length][16]. k is a multiple of eight; ready has room for a length that is.
  static void decode(const CodedPanels& panels, std::int64_t panel, std::int64_t k, std::int64_t length, float* ready) {
    with_element(panels.form.rounded, [&](auto element) {
      if (panels.has_bytes()) return decode_bytes<decltype(element)>(panels, panel, k, length, ready);
      decode_nibbles<decltype(element)>(panels, panel, k, length, ready);
    });
  }
};

}  // namespace muster::kernels

#include "kernels/coded/codes.hpp"

#include <bit>

namespace muster::kernels {
namespace {

constexpr CodeTable make_table(const std::array<std::uint32_t, 16>& bits, const std::array<std::uint8_t, 16>& order) {
  CodeTable table{{}, order, {}};
  for (std::size_t i = 0; i < 16; ++i) table.values[i] = std::bit_cast<float>(bits[i]);
  for (std::size_t i = 0; i < 15; ++i) table.bounds[i] = (table.values[order[i]] + table.values[order[i + 1]]) / 2;
  return table;
}

// Quantiles of the normal distribution.
constexpr CodeTable nf4 =
    make_table({0xBF800000, 0xBF3239B1, 0xBF066B30, 0xBECA32A0, 0xBE91A24D, 0xBE3D353F, 0xBDBA7871, 0x00000000,
                0x3DA2FAFF, 0x3E24CAE3, 0x3E7C04DD, 0x3EAD033A, 0x3EE1A4B8, 0x3F1007AB, 0x3F3913B3, 0x3F800000},
               {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});

// A sign and one of 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4. Both zeros are +0; what is above zero gets the second.
constexpr CodeTable fp4 =
    make_table({0x00000000, 0x3BAAAAAB, 0x3F2AAAAB, 0x3F800000, 0x3EAAAAAB, 0x3F000000, 0x3E2AAAAB, 0x3E800000,
                0x00000000, 0xBBAAAAAB, 0xBF2AAAAB, 0xBF800000, 0xBEAAAAAB, 0xBF000000, 0xBE2AAAAB, 0xBE800000},
               {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3});

}  // namespace

const CodeTable& code_table(Code code) { return code == Code::fp4 ? fp4 : nf4; }

}  // namespace muster::kernels

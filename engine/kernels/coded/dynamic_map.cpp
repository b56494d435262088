#include "kernels/coded/dynamic_map.hpp"

#include <array>
#include <cstddef>
#include <limits>

namespace muster::kernels {
namespace {

// What lies between 0 and 1: of each decade down to 1e-6 the middles of 64, 32, … 1 equal parts.
constexpr std::array<std::uint32_t, 127> signed_bits = {
    0x3513A3B7, 0x365A1A94, 0x370205FF, 0x37B24206, 0x38378034, 0x388AEFB3, 0x38BA1F4B, 0x3923D70B, 0x398CE705,
    0x39C7E283, 0x3A016F01, 0x3A1EECC1, 0x3A3C6A80, 0x3A59E83E, 0x3A7765FF, 0x3AA7EF9D, 0x3AF1A9FC, 0x3B1DB22D,
    0x3B428F5C, 0x3B676C8A, 0x3B8624DD, 0x3B989374, 0x3BAB020D, 0x3BBD70A4, 0x3BCFDF3B, 0x3BE24DD3, 0x3BF4BC6A,
    0x3C039581, 0x3C0CCCCD, 0x3C160418, 0x3C1F3B64, 0x3C3AE148, 0x3C68F5C3, 0x3C8B851F, 0x3CA28F5D, 0x3CB9999A,
    0x3CD0A3D7, 0x3CE7AE15, 0x3CFEB852, 0x3D0AE148, 0x3D166667, 0x3D21EB85, 0x3D2D70A3, 0x3D38F5C3, 0x3D447AE1,
    0x3D500000, 0x3D5B851F, 0x3D670A3D, 0x3D728F5D, 0x3D7E147B, 0x3D84CCCD, 0x3D8A8F5D, 0x3D9051EB, 0x3D96147B,
    0x3D9BD70A, 0x3DA1999A, 0x3DA75C2A, 0x3DAD1EB8, 0x3DB2E148, 0x3DB8A3D7, 0x3DBE6667, 0x3DC428F7, 0x3DC9EB85,
    0x3DDB3334, 0x3DF80000, 0x3E0A6666, 0x3E18CCCD, 0x3E273333, 0x3E35999A, 0x3E440000, 0x3E526666, 0x3E60CCCD,
    0x3E6F3333, 0x3E7D9999, 0x3E860000, 0x3E8D3334, 0x3E946666, 0x3E9B999A, 0x3EA2CCCC, 0x3EAA0000, 0x3EB13333,
    0x3EB86666, 0x3EBF999A, 0x3EC6CCCC, 0x3ECE0000, 0x3ED53333, 0x3EDC6666, 0x3EE3999A, 0x3EEACCCC, 0x3EF20000,
    0x3EF93332, 0x3F003333, 0x3F03CCCC, 0x3F076666, 0x3F0B0000, 0x3F0E999A, 0x3F123334, 0x3F15CCCD, 0x3F196666,
    0x3F1D0000, 0x3F20999A, 0x3F243334, 0x3F27CCCD, 0x3F2B6666, 0x3F2F0000, 0x3F32999A, 0x3F363334, 0x3F39CCCD,
    0x3F3D6666, 0x3F410000, 0x3F44999A, 0x3F483333, 0x3F4BCCCD, 0x3F4F6666, 0x3F530000, 0x3F56999A, 0x3F5A3333,
    0x3F5DCCCD, 0x3F616666, 0x3F650000, 0x3F68999A, 0x3F6C3333, 0x3F6FCCCD, 0x3F736666, 0x3F770000, 0x3F7A999A,
    0x3F7E3333};

// Twice as many parts of each.
constexpr std::array<std::uint32_t, 254> unsigned_bits = {
    0x34AE7BAA, 0x35500998, 0x360E9B38, 0x3692CCF6, 0x36DE4C51, 0x3714E5D5, 0x3783126E, 0x37E171A0, 0x381FE868,
    0x384F1800, 0x387E479A, 0x3896BB99, 0x38AE5364, 0x38C5EB31, 0x3906594B, 0x394154CA, 0x397C5049, 0x399BA5E4,
    0x39B923A2, 0x39D6A163, 0x39F41F22, 0x3A08CE71, 0x3A178D50, 0x3A264C30, 0x3A350B10, 0x3A43C9EF, 0x3A5288D0,
    0x3A6147AF, 0x3A70068E, 0x3A7EC56E, 0x3A958106, 0x3ABA5E35, 0x3ADF3B64, 0x3B020C4A, 0x3B147AE1, 0x3B26E978,
    0x3B395810, 0x3B4BC6A7, 0x3B5E3540, 0x3B70A3D7, 0x3B818937, 0x3B8AC082, 0x3B93F7CF, 0x3B9D2F1A, 0x3BA66666,
    0x3BAF9DB2, 0x3BB8D4FD, 0x3BC20C4A, 0x3BCB4395, 0x3BD47AE1, 0x3BDDB22E, 0x3BE6E978, 0x3BF020C5, 0x3BF9580F,
    0x3C0147AE, 0x3C05E354, 0x3C0A7EF9, 0x3C0F1AA0, 0x3C13B645, 0x3C1851EB, 0x3C1CED92, 0x3C218937, 0x3C2F5C2A,
    0x3C466667, 0x3C5D70A3, 0x3C747AE2, 0x3C85C28F, 0x3C9147AF, 0x3C9CCCCD, 0x3CA851EB, 0x3CB3D70B, 0x3CBF5C29,
    0x3CCAE147, 0x3CD66667, 0x3CE1EB87, 0x3CED70A3, 0x3CF8F5C3, 0x3D023D70, 0x3D080000, 0x3D0DC28F, 0x3D13851F,
    0x3D1947AF, 0x3D1F0A3D, 0x3D24CCCD, 0x3D2A8F5C, 0x3D3051EB, 0x3D36147B, 0x3D3BD70A, 0x3D41999A, 0x3D475C28,
    0x3D4D1EB8, 0x3D52E147, 0x3D58A3D7, 0x3D5E6667, 0x3D6428F7, 0x3D69EB87, 0x3D6FAE15, 0x3D7570A3, 0x3D7B3333,
    0x3D807AE2, 0x3D835C2A, 0x3D863D71, 0x3D891EB8, 0x3D8C0000, 0x3D8EE148, 0x3D91C290, 0x3D94A3D7, 0x3D97851F,
    0x3D9A6667, 0x3D9D47AF, 0x3DA028F6, 0x3DA30A3E, 0x3DA5EB85, 0x3DA8CCCD, 0x3DABAE15, 0x3DAE8F5C, 0x3DB170A4,
    0x3DB451EB, 0x3DB73333, 0x3DBA147B, 0x3DBCF5C3, 0x3DBFD70B, 0x3DC2B852, 0x3DC5999A, 0x3DC87AE2, 0x3DCB5C29,
    0x3DD40000, 0x3DE26666, 0x3DF0CCCD, 0x3DFF3333, 0x3E06CCCC, 0x3E0E0000, 0x3E153334, 0x3E1C6666, 0x3E23999A,
    0x3E2ACCCC, 0x3E320000, 0x3E393334, 0x3E406666, 0x3E47999A, 0x3E4ECCCC, 0x3E560000, 0x3E5D3334, 0x3E646666,
    0x3E6B999A, 0x3E72CCCC, 0x3E7A0000, 0x3E809999, 0x3E843333, 0x3E87CCCD, 0x3E8B6666, 0x3E8F0000, 0x3E92999A,
    0x3E963333, 0x3E99CCCC, 0x3E9D6666, 0x3EA10000, 0x3EA4999A, 0x3EA83333, 0x3EABCCCC, 0x3EAF6666, 0x3EB30000,
    0x3EB6999A, 0x3EBA3333, 0x3EBDCCCC, 0x3EC16666, 0x3EC50000, 0x3EC8999A, 0x3ECC3333, 0x3ECFCCCC, 0x3ED36666,
    0x3ED70000, 0x3EDA999A, 0x3EDE3333, 0x3EE1CCCC, 0x3EE56666, 0x3EE90000, 0x3EEC999A, 0x3EF03333, 0x3EF3CCCC,
    0x3EF76666, 0x3EFB0000, 0x3EFE9999, 0x3F01199A, 0x3F02E666, 0x3F04B333, 0x3F068000, 0x3F084CCC, 0x3F0A199A,
    0x3F0BE666, 0x3F0DB334, 0x3F0F8000, 0x3F114CCD, 0x3F13199A, 0x3F14E666, 0x3F16B334, 0x3F188000, 0x3F1A4CCD,
    0x3F1C199A, 0x3F1DE666, 0x3F1FB334, 0x3F218000, 0x3F234CCD, 0x3F25199A, 0x3F26E666, 0x3F28B334, 0x3F2A8000,
    0x3F2C4CCD, 0x3F2E199A, 0x3F2FE666, 0x3F31B334, 0x3F338000, 0x3F354CCD, 0x3F37199A, 0x3F38E666, 0x3F3AB334,
    0x3F3C8000, 0x3F3E4CCD, 0x3F40199A, 0x3F41E666, 0x3F43B334, 0x3F458000, 0x3F474CCC, 0x3F49199A, 0x3F4AE666,
    0x3F4CB334, 0x3F4E8000, 0x3F504CCC, 0x3F52199A, 0x3F53E666, 0x3F55B334, 0x3F578000, 0x3F594CCC, 0x3F5B199A,
    0x3F5CE666, 0x3F5EB334, 0x3F608000, 0x3F624CCC, 0x3F64199A, 0x3F65E666, 0x3F67B334, 0x3F698000, 0x3F6B4CCC,
    0x3F6D199A, 0x3F6EE666, 0x3F70B334, 0x3F728000, 0x3F744CCC, 0x3F76199A, 0x3F77E666, 0x3F79B334, 0x3F7B8000,
    0x3F7D4CCC, 0x3F7F199A};

constexpr float next_below(float positive_or_negative) {
  const auto bits = std::bit_cast<std::uint32_t>(positive_or_negative);
  return std::bit_cast<float>(positive_or_negative > 0 ? bits - 1 : bits + 1);
}

constexpr float middle_of(float low, float high) {
  const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2;  // exact
  const auto rounded = static_cast<float>(middle);
  return static_cast<double>(rounded) > middle ? next_below(rounded) : rounded;
}

// The smallest magnitude of a bucket.
constexpr float first_of(std::uint32_t bucket) {
  if (bucket == 0) return 0;
  return std::bit_cast<float>(DynamicMap::least_bits + ((bucket - 1) << DynamicMap::bucket_shift));
}

constexpr void count_middles(DynamicMap& map) {
  std::size_t count = 0;
  // Numbers below zero, from the largest magnitude on: those of a bucket lie above the beginning of the next.
  for (std::uint32_t bucket = DynamicMap::buckets; bucket-- > 0;) {
    const float beyond = bucket + 1 < DynamicMap::buckets ? first_of(bucket + 1) : 2.0F;
    while (map.middles[count] <= -beyond) ++count;
    map.below[1][bucket] = static_cast<std::uint8_t>(count);
    if (map.middles[count + 1] < -first_of(bucket)) throw "two middles in one bucket";
  }
  for (std::uint32_t bucket = 0; bucket < DynamicMap::buckets; ++bucket) {
    while (map.middles[count] < first_of(bucket)) ++count;
    map.below[0][bucket] = static_cast<std::uint8_t>(count);
    if (bucket + 1 < DynamicMap::buckets && map.middles[count + 1] < first_of(bucket + 1))
      throw "two middles in one bucket";
  }
}

constexpr DynamicMap with_middles(DynamicMap map) {
  for (std::size_t i = 0; i < 255; ++i) map.middles[i] = middle_of(map.values[i], map.values[i + 1]);
  map.middles[255] = std::numeric_limits<float>::infinity();
  count_middles(map);
  return map;
}

constexpr DynamicMap make_signed_map() {
  DynamicMap map;
  for (std::size_t i = 0; i < signed_bits.size(); ++i) {
    map.values[128 + i] = std::bit_cast<float>(signed_bits[i]);
    map.values[126 - i] = -map.values[128 + i];
  }
  map.values[255] = 1;
  return with_middles(map);
}

constexpr DynamicMap make_unsigned_map() {
  DynamicMap map;
  for (std::size_t i = 0; i < unsigned_bits.size(); ++i) map.values[1 + i] = std::bit_cast<float>(unsigned_bits[i]);
  map.values[255] = 1;
  return with_middles(map);
}

constexpr DynamicMap of_either_sign = make_signed_map();
constexpr DynamicMap of_one_sign = make_unsigned_map();

}  // namespace

const DynamicMap& signed_map() { return of_either_sign; }
const DynamicMap& unsigned_map() { return of_one_sign; }

}  // namespace muster::kernels

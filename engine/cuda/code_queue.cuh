// Chunks of a packed weight's codes on their way from the device's memory to a warp, some of them under way at once.
//
// A queue has slots. `ask` says which chunk is to come into a slot, or `ask_nothing` that there is none left. Chunks are
// taken in the order in which they were asked for, each before its slot is asked for again.
#pragma once

#include "cuda/async_copy.cuh"
#include "cuda/packed_codes.cuh"

namespace muster::cuda {

constexpr int chunk = 64;                  // inputs: of 4 bits, they have one scale
constexpr int half_inputs = quad * octet;  // what a warp reads at once
constexpr int halves = chunk / half_inputs;

// A lane's part of 64 inputs.
template <bool bytes>
struct CodeChunk {
  Codes<bytes> codes[halves];
  float4 scales;  // of 4 bits
};

// Where a lane finds its part of a tile: a quad of one of two panels, and an octet of each 32 inputs.
struct LanePlace {
  int panel = static_cast<int>(threadIdx.x) % lanes / quad / quads;
  int at_quad = static_cast<int>(threadIdx.x) % lanes / quad % quads;
  int at_octet = static_cast<int>(threadIdx.x) % quad;
};

// A tile's codes and scales in the device's memory, from its first input on.
struct TileCodes {
  const uint4* codes[2];  // of each panel
  const float4* scales[2];
};

// A warp's chunks that are under way in registers, of which each lane reads what it needs itself.
template <bool bytes, int ahead>
class RegisterQueue {
 public:
  static constexpr std::size_t warp_bytes = 0;

  __device__ RegisterQueue(unsigned char*, const TileCodes& tile)
      : codes_((place_.panel == 0 ? tile.codes[0] : tile.codes[1]) + place_.at_quad +
               place_.at_octet * octet_words<bytes>),
        scales_((place_.panel == 0 ? tile.scales[0] : tile.scales[1]) + place_.at_quad) {}

  __device__ void ask(int slot, unsigned chunk_at, unsigned scale_at) {
    constexpr unsigned half_words = quad * octet_words<bytes>;
#pragma unroll
    for (unsigned half = 0; half < halves; ++half)
      read_[slot].codes[half] = read_codes<bytes>(codes_ + (chunk_at * halves + half) * half_words);
    if constexpr (!bytes) read_[slot].scales = __ldcs(scales_ + scale_at * quads);
  }
  __device__ void ask_nothing() const {}
  __device__ const CodeChunk<bytes>& take(int slot) const { return read_[slot]; }

 private:
  LanePlace place_;
  const uint4* codes_;
  const float4* scales_;
  CodeChunk<bytes> read_[ahead];
};

// The same in shared memory: a warp copies 512 bytes in a row, which are fewest requests to the memory, and each lane
// then takes its part. Which bank a pack of 16 bytes lies in is changed so that the eight lanes that read at once find
// theirs in different ones.
template <bool bytes, int ahead>
class SharedQueue {
  static constexpr int panel_packs = chunk / octet * static_cast<int>(octet_words<bytes>);  // of a chunk
  static constexpr int packs = 2 * panel_packs + (bytes ? 0 : 2 * quads);

 public:
  static constexpr std::size_t warp_bytes = std::size_t{16} * packs * ahead;

  __device__ SharedQueue(unsigned char* shared, const TileCodes& tile)
      : tile_(tile), packs_(reinterpret_cast<uint4*>(shared + own_warp() * warp_bytes)) {}

  __device__ void ask(int slot, unsigned chunk_at, unsigned scale_at) {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    uint4* const to = packs_ + slot * packs;
    __syncwarp();  // what was in the slot has been read
#pragma unroll
    for (int panel = 0; panel < 2; ++panel)
#pragma unroll
      for (int i = 0; i < panel_packs; i += lanes)
        copy_ahead(to + panel * panel_packs + bank_of(i + lane),
                   tile_.codes[panel] + chunk_at * panel_packs + i + lane);
    if (!bytes && lane < 2 * quads)
      copy_ahead(to + 2 * panel_packs + lane,
                 (lane < quads ? tile_.scales[0] : tile_.scales[1]) + scale_at * quads + lane % quads);
    end_copy_group();
  }
  __device__ void ask_nothing() const { end_copy_group(); }

  __device__ CodeChunk<bytes> take(int slot) const {
    wait_for_copy_groups<ahead - 1>();
    __syncwarp();
    const uint4* const from = packs_ + slot * packs;
    constexpr int words = bytes ? 2 : 1;
    CodeChunk<bytes> read;
#pragma unroll
    for (int half = 0; half < halves; ++half)
#pragma unroll
      for (int word = 0; word < words; ++word)
        read.codes[half].words[word] =
            from[place_.panel * panel_packs +
                 bank_of(((half * quad + place_.at_octet) * words + word) * quads + place_.at_quad)];
    if constexpr (!bytes)
      read.scales = reinterpret_cast<const float4*>(from)[2 * panel_packs + place_.panel * quads + place_.at_quad];
    return read;
  }

 private:
  __device__ static int bank_of(int pack) { return pack ^ (pack >> 2 & 2) ^ (pack >> 2 & 4); }

  LanePlace place_;
  TileCodes tile_;
  uint4* packs_;
};

}  // namespace muster::cuda

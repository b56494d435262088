// Codes of packed weights on their way to numbers (packed_kernels.hpp, Note [Words of codes]). A thread takes eight
// consecutive inputs, an octet, of four consecutive outputs, a quad.
#pragma once

#include "cuda/packed_kernels.hpp"
#include "cuda/scalar.cuh"
#include "cuda/warp.cuh"

namespace muster::cuda {

constexpr int panel_outputs = 16;
constexpr int octet = 8;
constexpr int quad = 4;
constexpr int quads = panel_outputs / quad;

// A PackedMatrix as kernels have it.
struct PackedTask {
  const uint4* codes;
  const float4* scales;
  const std::uint16_t* phases;
  std::int64_t outputs, inputs;
  int panels;
  int groups;     // of a panel
  int slots;
  int run_shift;  // input k of a row that begins a run has slot k >> run_shift
  float values[16];
};

inline PackedTask packed_task(const PackedMatrix& packed) {
  const int of_group = packed.has_bytes() ? 4 : 8;
  PackedTask task{static_cast<const uint4*>(packed.codes),
                  reinterpret_cast<const float4*>(packed.scales),
                  packed.phases,
                  packed.outputs,
                  packed.inputs,
                  static_cast<int>((packed.outputs + panel_outputs - 1) / panel_outputs),
                  static_cast<int>((packed.inputs + of_group - 1) / of_group),
                  static_cast<int>(packed.slots),
                  packed.has_bytes() ? 31 : 0,
                  {}};
  if (packed.has_bytes()) return task;
  while (std::int64_t{1} << task.run_shift < packed.run) ++task.run_shift;
  for (int i = 0; i < 16; ++i) task.values[i] = packed.values[i];
  return task;
}

template <bool bytes>
struct Codes {
  uint4 words[bytes ? 2 : 1];  // a word of each output; of 8 bits, first those of the first four inputs
};

__device__ inline unsigned part(const uint4& words, int at) {
  return at == 0 ? words.x : at == 1 ? words.y : at == 2 ? words.z : words.w;
}
__device__ inline float part(const float4& values, int at) {
  return at == 0 ? values.x : at == 1 ? values.y : at == 2 ? values.z : values.w;
}

// How many times 16 bytes a quad's codes of an octet take, and where they begin.
template <bool bytes>
constexpr unsigned octet_words = (bytes ? 2 : 1) * quads;
template <bool bytes>
__device__ const uint4* codes_of(const PackedTask& task, int panel, int at_quad, int at_octet) {
  return task.codes + static_cast<std::int64_t>(panel) * task.groups * quads + at_quad +
         static_cast<unsigned>(at_octet) * octet_words<bytes>;
}
__device__ inline const float4* scales_of(const PackedTask& task, int panel, int at_quad) {
  return task.scales + static_cast<std::int64_t>(panel) * task.slots * quads + at_quad;
}

// Codes are read once, and go through the caches ahead of what is to stay there. ends: of 8 bits, the panel ends with
// the octet's first half.
template <bool bytes>
__device__ Codes<bytes> read_codes(const uint4* from, bool ends = false) {
  if constexpr (bytes)
    return {__ldcs(from), __ldcs(from + (ends ? 0 : quads))};
  else
    return {__ldcs(from)};
}

// What codes stand for. Each lane of a warp holds one of the sixteen values of 4 bits, and the others ask it: to be
// called by all lanes of a warp.
template <bool bytes>
class Decoder {
 public:
  __device__ explicit Decoder(const PackedTask& task) : own_(task.values[threadIdx.x % 16]) {}

  // What input 0 … 7 of output 0 … 3 stands for.
  __device__ float value(const Codes<bytes>& codes, int output, int input) const {
    if constexpr (bytes) {
      // 2^23 + code + 128, put together from its bytes.
      const unsigned word = part(codes.words[input / 4], output) ^ 0x80808080u;
      return __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7650u + static_cast<unsigned>(input % 4))) - 8388736.0f;
    } else {
      const unsigned word = part(codes.words[0], output);
      return __shfl_sync(whole_warp, own_, static_cast<int>(word >> (4 * input)), 16);
    }
  }

 private:
  float own_;
};

}  // namespace muster::cuda

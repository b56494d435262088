// A packed weight's numbers as a plain matrix, for products whose time does not go into reading the weight. Eight lanes
// of a warp write 128 bytes of a row of 16-bit numbers.
#include <type_traits>

#include "cuda/dependent_launch.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/pack.cuh"
#include "cuda/packed_codes.cuh"

namespace muster::cuda {
namespace {

constexpr int unpack_threads = 256;
constexpr int at_once = 4;  // reads of a thread that are under way together

// aligned: rows begin at multiples of 16 bytes, and an octet has one scale.
template <class T, bool bytes, bool aligned>
class Unpacking {
 public:
  __device__ Unpacking(const PackedTask& task, T* matrix, unsigned unit) : task_(task), matrix_(matrix) {
    const auto octets = static_cast<unsigned>((task.inputs + octet - 1) / octet);
    const unsigned units = static_cast<unsigned>(task.panels) * octets * quads;
    exists_ = unit < units;
    const unsigned place = exists_ ? unit : units - 1;
    quad_ = static_cast<int>(place % quads);
    octet_ = static_cast<int>(place / quads % octets);
    panel_ = static_cast<int>(place / quads / octets);
    codes_ = read_codes<bytes>(codes_of<bytes>(task, panel_, quad_, octet_), 2 * octet_ + 1 == task.groups);
  }

  __device__ void write(const Decoder<bytes>& decoder) const {
#pragma unroll
    for (int output = 0; output < quad; ++output) {
      const std::int64_t row = static_cast<std::int64_t>(panel_) * panel_outputs + quad_ * quad + output;
      const int phase = task_.phases != nullptr ? task_.phases[row] : 0;
      float scale = scale_of(phase, 0, output);
      Pack<T, octet> numbers;
#pragma unroll
      for (int input = 0; input < octet; ++input) {
        if constexpr (!aligned) scale = scale_of(phase, input, output);
        numbers.values[input] = narrow<T>(__fmul_rn(decoder.value(codes_, output, input), scale));
      }
      if (exists_ && row < task_.outputs) write_row(matrix_ + row * task_.inputs + octet_ * octet, numbers);
    }
  }

 private:
  // For an input beyond the last, any scale.
  __device__ float scale_of(int phase, int input, int output) const {
    const int slot = (octet_ * octet + input + phase) >> task_.run_shift, last = task_.slots - 1;
    return part(scales_of(task_, panel_, quad_)[min(slot, last) * quads], output);
  }

  __device__ void write_row(T* to, const Pack<T, octet>& numbers) const {
    if constexpr (aligned) {
      constexpr int of_pack = 16 / sizeof(T);
#pragma unroll
      for (int first = 0; first < octet; first += of_pack) {
        Pack<T> pack;
#pragma unroll
        for (int i = 0; i < of_pack; ++i) pack.values[i] = numbers.values[first + i];
        reinterpret_cast<Pack<T>*>(to)[first / of_pack] = pack;
      }
    } else {
#pragma unroll
      for (int input = 0; input < octet; ++input)
        if (octet_ * octet + input < task_.inputs) to[input] = numbers.values[input];
    }
  }

  const PackedTask& task_;
  T* matrix_;
  bool exists_;
  int panel_, octet_, quad_;
  Codes<bytes> codes_;
};

template <class T, bool bytes, bool aligned>
__global__ void __launch_bounds__(unpack_threads) unpack_codes(const __grid_constant__ PackedTask task, T* matrix) {
  using Unit = Unpacking<T, bytes, aligned>;
  const unsigned first = blockIdx.x * at_once * unpack_threads + threadIdx.x;
  const Unit units[at_once] = {Unit(task, matrix, first), Unit(task, matrix, first + unpack_threads),
                               Unit(task, matrix, first + 2 * unpack_threads),
                               Unit(task, matrix, first + 3 * unpack_threads)};
  const Decoder<bytes> decoder(task);
  // What was unpacked into this memory before may still be read.
  wait_for_those_before();
  let_the_next_begin();
#pragma unroll
  for (const Unit& unit : units) unit.write(decoder);
}

}  // namespace

LaunchError unpack(Stream stream, Scalar scalar, const PackedMatrix& packed, void* matrix) {
  const PackedTask task = packed_task(packed);
  const std::int64_t units = (packed.inputs + octet - 1) / octet * task.panels * quads;
  constexpr std::int64_t of_block = at_once * unpack_threads;
  const auto blocks = static_cast<unsigned>((units + of_block - 1) / of_block);
  return dispatch(scalar, [&](auto element) {
    using T = decltype(element);
    const auto launch = [&](auto kernel) {
      launch_overlapping(kernel, blocks, unpack_threads, 0, static_cast<cudaStream_t>(stream), task,
                         static_cast<T*>(matrix));
    };
    if (packed.has_bytes())
      packed.inputs % octet == 0 ? launch(unpack_codes<T, true, true>) : launch(unpack_codes<T, true, false>);
    else
      packed.inputs % octet == 0 ? launch(unpack_codes<T, false, true>) : launch(unpack_codes<T, false, false>);
  });
}

}  // namespace muster::cuda

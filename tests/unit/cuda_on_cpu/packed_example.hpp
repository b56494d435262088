// Packed weights as a GPU has them, with the numbers that they stand for.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "cuda/packed_kernels.hpp"
#include "guarded_bytes.hpp"
#include "kernels/coded/coded_matrix.hpp"

namespace muster::cuda {

// For names of tests.
struct Packing {
  const char* name;
  kernels::Code code;
  std::int64_t run;
};
inline std::ostream& operator<<(std::ostream& out, const Packing& packing) { return out << packing.name; }

inline kernels::Scalar kernels_scalar(Scalar scalar) {
  return scalar == Scalar::float32    ? kernels::Scalar::float32
         : scalar == Scalar::bfloat16 ? kernels::Scalar::bfloat16
                                      : kernels::Scalar::float16;
}

inline std::vector<float> random_numbers(std::size_t count, unsigned seed, float size = 1) {
  std::mt19937 chance(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(chance);
  return numbers;
}

class PackedExample {
 public:
  PackedExample(const Packing& packing, Scalar scalar, std::int64_t outputs, std::int64_t inputs)
      : form_{packing.code, packing.run, kernels_scalar(scalar)} {
    const std::size_t bytes = kernels::CodedMatrix::bytes_needed(outputs, inputs, form_);
    // What nobody fills is not nothing.
    memory_.assign(bytes / sizeof(std::uint64_t) + 1, 0x5A5A5A5A5A5A5A5AULL);
    kernels::CodedMatrix matrix(reinterpret_cast<std::byte*>(memory_.data()), outputs, inputs, form_);
    const std::vector<float> rows = random_numbers(static_cast<std::size_t>(outputs * inputs), 3);
    kernels::ThreadTeam alone(1);
    matrix.code_rows(alone, 0, outputs, rows.data(), kernels::Scalar::float32);
    numbers_.resize(rows.size());
    for (std::int64_t row = 0; row < outputs; ++row)
      matrix.copy_row(row, &numbers_[static_cast<std::size_t>(row * inputs)], kernels::Scalar::float32);
    describe(matrix.panels());
  }

  const PackedMatrix& packed() const { return packed_; }
  // [outputs, inputs]: rounded to the type that is computed in.
  const std::vector<float>& numbers() const { return numbers_; }

 private:
  void describe(const kernels::CodedPanels& panels) {
    const std::int64_t rows = panels.panels() * 16;
    codes_ = panels.has_bytes() ? words_of_bytes(panels)
                                : copy(panels.groups(0), panels.panels() * panels.panel_bytes());
    scales_ = copy(panels.scales(0), rows * panels.slots() * std::int64_t{sizeof(float)});
    packed_ = {.codes = codes_.data(),
               .scales = reinterpret_cast<const float*>(scales_.data()),
               .outputs = panels.outputs,
               .inputs = panels.inputs,
               .slots = panels.slots(),
               .run = panels.run()};
    if (!panels.has_bytes()) packed_.values = kernels::code_table(form_.code).values.data();
    if (!panels.crosses_rows()) return;
    phases_ = copy(panels.phases(0), rows * std::int64_t{sizeof(std::uint16_t)});
    packed_.phases = reinterpret_cast<const std::uint16_t*>(phases_.data());
  }

  static GuardedBytes copy(const void* from, std::int64_t bytes) {
    GuardedBytes made(static_cast<std::size_t>(bytes));
    std::memcpy(made.data(), from, made.size());
    return made;
  }
  // Codes of 8 bits, which a CPU has byte by byte: four inputs of an output become a word.
  static GuardedBytes words_of_bytes(const kernels::CodedPanels& panels) {
    const std::int64_t groups = (panels.inputs + 3) / 4;
    GuardedBytes words(static_cast<std::size_t>(panels.panels() * groups * 64));
    for (std::int64_t panel = 0; panel < panels.panels(); ++panel)
      for (std::int64_t input = 0; input < panels.inputs; ++input)
        for (std::int64_t output = 0; output < 16; ++output)
          words.data()[((panel * groups + input / 4) * 16 + output) * 4 + input % 4] =
              static_cast<std::byte>(panels.bytes(panel)[input * 16 + output]);
    return words;
  }

  kernels::CodedForm form_;
  std::vector<std::uint64_t> memory_;  // as on a CPU
  GuardedBytes codes_, scales_, phases_;
  std::vector<float> numbers_;
  PackedMatrix packed_;
};

}  // namespace muster::cuda

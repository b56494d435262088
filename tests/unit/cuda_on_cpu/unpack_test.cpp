// The source of unpack.cu, run on the CPU.
#include "cuda/unpack.cu"

#include <gtest/gtest.h>

#include "elements.hpp"
#include "packed_example.hpp"

namespace muster::cuda {
namespace {

class Unpacked : public testing::TestWithParam<Packing> {
 protected:
  ~Unpacked() override { cuda_on_cpu::Threads::current().order = cuda_on_cpu::Order::ascending; }

  template <class T>
  void expect_the_numbers(Scalar scalar, std::int64_t outputs, std::int64_t inputs) {
    const PackedExample example(GetParam(), scalar, outputs, inputs);
    const std::size_t count = example.numbers().size();
    Elements<T> matrix(count);
    ASSERT_STREQ(unpack(nullptr, scalar, example.packed(), matrix.data()), "");
    std::size_t others = 0;
    for (std::size_t i = 0; i < count; ++i)
      others += std::bit_cast<unsigned>(matrix[i]) != std::bit_cast<unsigned>(example.numbers()[i]) ? 1U : 0U;
    EXPECT_EQ(others, 0U) << outputs << " x " << inputs;
  }
};

// One output and one input; parts of panels, of octets and of runs; runs that cross rows; more than one block.
TEST_P(Unpacked, MatricesHaveTheBitsOfTheCpusNumbers) {
  for (const auto order : {cuda_on_cpu::Order::ascending, cuda_on_cpu::Order::descending}) {
    cuda_on_cpu::Threads::current().order = order;
    for (const auto& [outputs, inputs] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {16, 64}, {40, 192}, {17, 75},
                                          {51, 72}, {3, 9}, {35, 1032}}) {
      expect_the_numbers<float>(Scalar::float32, outputs, inputs);
      expect_the_numbers<__nv_bfloat16>(Scalar::bfloat16, outputs, inputs);
      expect_the_numbers<__half>(Scalar::float16, outputs, inputs);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Packings, Unpacked,
                         testing::Values(Packing{"int8", kernels::Code::int8, 0},
                                         Packing{"nf4", kernels::Code::nf4, 64}, Packing{"fp4", kernels::Code::fp4, 32},
                                         Packing{"nf4_long", kernels::Code::nf4, 4096}),
                         [](const auto& named) { return std::string(named.param.name); });

}  // namespace
}  // namespace muster::cuda

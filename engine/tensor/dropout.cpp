#include "tensor/dropout.hpp"

namespace muster::tensor {
namespace {

at::Tensor shifted(const at::Tensor& bits, std::int64_t by) {
  return at::bitwise_right_shift(bits, by).bitwise_and_((std::int64_t{1} << (64 - by)) - 1);
}

// As mix_bits(); products of whole numbers wrap.
at::Tensor mixed(at::Tensor bits) {
  bits = bits.bitwise_xor(shifted(bits, 30)).mul_(static_cast<std::int64_t>(0xbf58476d1ce4e5b9u));
  bits = bits.bitwise_xor(shifted(bits, 27)).mul_(static_cast<std::int64_t>(0x94d049bb133111ebu));
  return bits.bitwise_xor(shifted(bits, 31));
}

}  // namespace

at::Tensor kept_inputs(const Dropout& dropout, std::int64_t width) {
  const at::Tensor& keys = dropout.row_keys;
  const at::Tensor places = at::arange(1, width + 1, keys.options())
                                .add_(dropout.salt << 32)
                                .mul_(static_cast<std::int64_t>(0x9e3779b97f4a7c15u));
  const at::Tensor draws = shifted(mixed(keys.unsqueeze(1) + places.unsqueeze(0)), 40);
  return draws.ge(dropout.limit()).to(at::kFloat).mul_(dropout.factor());
}

}  // namespace muster::tensor

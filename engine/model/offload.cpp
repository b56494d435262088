#include "model/offload.hpp"

#include <stdexcept>
#include <utility>

#include "model/parameter_reading.hpp"
#include "tensor/element_types.hpp"

namespace muster::model {
namespace {

[[noreturn]] void fail(const Error& error) { throw std::runtime_error(to_string(error)); }

class OffloadedBlock : public Block {
 public:
  OffloadedBlock(std::function<std::unique_ptr<Block>(ParameterList&)> declare, ParameterVisits visits)
      : declare_(std::move(declare)), visits_(std::move(visits)) {}

  at::Tensor forward(tensor::DeviceOps& ops, const Pass& pass, const at::Tensor& hidden,
                     Tape* tape) const override {
    return visits_.bring(declare_)->forward(ops, pass, hidden, tape);
  }
  // Models with parts elsewhere are not trained.
  void thin(Tape&) const override { throw std::logic_error("an offloaded block has no tape"); }
  void restore(tensor::DeviceOps&, const Pass&, Tape&) const override {
    throw std::logic_error("an offloaded block has no tape");
  }
  at::Tensor backward(tensor::DeviceOps&, const Pass&, const Tape&, const at::Tensor&, ParameterAccess&) const override {
    throw std::logic_error("an offloaded block has no gradients");
  }

 private:
  std::function<std::unique_ptr<Block>(ParameterList&)> declare_;
  ParameterVisits visits_;
};

}  // namespace

void ParameterVisits::read(const ParameterList& list) const {
  if (auto read = read_parameters(list.parameters(), *source_, *ops_, threads_, {}); !read) fail(read.error());
}

at::Tensor ParameterVisits::rows(const std::string& name, const at::Tensor& indices, std::int64_t width) const {
  const at::Tensor wanted = indices.to(at::kCPU, at::kLong).contiguous();
  at::Tensor rows = at::empty({wanted.numel(), width}, type_);
  const std::size_t row_bytes = static_cast<std::size_t>(width) * c10::elementSize(type_);
  auto* out = static_cast<std::byte*>(rows.mutable_data_ptr());
  for (std::int64_t i = 0; i < wanted.numel(); ++i, out += row_bytes) {
    const checkpoint::TensorSlice row{.first_row = wanted.const_data_ptr<std::int64_t>()[i], .rows = 1};
    if (auto read = source_->read(name, row, tensor::from_torch(type_), {out, row_bytes}); !read) fail(read.error());
  }
  return rows.to(ops_->device);
}

std::unique_ptr<Block> make_offloaded_block(std::function<std::unique_ptr<Block>(ParameterList&)> declare,
                                            ParameterVisits visits) {
  return std::make_unique<OffloadedBlock>(std::move(declare), std::move(visits));
}

}  // namespace muster::model

#include "train/state_tensors.hpp"

#include <stdexcept>

namespace muster::train {
namespace {

std::span<std::byte> bytes_of(at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

// As a checkpoint has it.
spec::Dimensions dimensions_of(const parallel::FlatPiece& piece) {
  if (!piece.columns) return {{piece.rows}, 1};
  return piece.transposed ? spec::Dimensions{{*piece.columns, piece.rows}, 2}
                          : spec::Dimensions{{piece.rows, *piece.columns}, 2};
}

}  // namespace

StateTensors::StateTensors(const parallel::Strategy& strategy, const optimizer::Optimizer& optimizer)
    : strategy_(strategy), optimizer_(optimizer) {
  std::vector<std::string> states{std::string(checkpoint::parameter_state)};
  for (const optimizer::OptimizerState& state : optimizer.states()) states.push_back(state.name);
  const auto shards = strategy.shards();
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (const parallel::FlatPiece& piece : shards[i].pieces) {
      if (piece.count != piece.rows * piece.columns.value_or(1))
        throw std::logic_error("a part of " + piece.tensor + " lies on another rank");
      places_[piece.tensor] = {i, piece};
      tensors_.push_back({piece.tensor, dimensions_of(piece), states});
    }
}

const at::Tensor& StateTensors::flat(std::size_t shard, const std::string& state) const {
  if (state == checkpoint::parameter_state) return strategy_.shards()[shard].master;
  for (const optimizer::OptimizerState& known : optimizer_.states())
    if (known.name == state) return known.of_shards[shard];
  throw std::logic_error("a state that the optimizer does not have: " + state);
}

at::Tensor StateTensors::values(const std::string& tensor, const std::string& state) const {
  const Place& place = places_.at(tensor);
  const at::Tensor held = flat(place.shard, state).narrow(0, place.piece.offset, place.piece.count);
  if (!place.piece.transposed) return held;
  return held.view({place.piece.rows, *place.piece.columns}).t().contiguous().view({-1});
}

void StateTensors::copy_to(checkpoint::HostCopy& copy) const {
  const auto pieces = copy.pieces();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::span<float> to = copy.numbers(i);
    at::Tensor target = at::from_blob(to.data(), {pieces[i].count}, at::kFloat);
    target.copy_(values(pieces[i].tensor, pieces[i].state).narrow(0, pieces[i].first, pieces[i].count), true);
  }
}

void StateTensors::write(const Place& place, const std::string& state, const at::Tensor& host) const {
  at::Tensor held = flat(place.shard, state).narrow(0, place.piece.offset, place.piece.count);
  if (place.piece.transposed)
    held.view({place.piece.rows, *place.piece.columns}).copy_(host.view({*place.piece.columns, place.piece.rows}).t());
  else
    held.copy_(host);
}

Result<void> StateTensors::read(const checkpoint::TrainingCheckpoint& checkpoint) {
  for (const checkpoint::LogicalTensor& tensor : tensors_) {
    const Place& place = places_.at(tensor.name);
    for (const std::string& state : tensor.states) {
      at::Tensor host = at::empty({place.piece.count}, at::kFloat);
      const auto read = checkpoint.read(tensor.name, state, 0,
                                        {host.mutable_data_ptr<float>(), static_cast<std::size_t>(place.piece.count)});
      if (!read) return read;
      write(place, state, host);
    }
  }
  return {};
}

Result<void> StateTensors::read(const checkpoint::TensorSource& source) {
  for (const checkpoint::LogicalTensor& tensor : tensors_) {
    const Place& place = places_.at(tensor.name);
    at::Tensor host = at::empty({place.piece.count}, at::kFloat);
    if (auto read = source.read(tensor.name, {}, spec::ElementType::float32, bytes_of(host)); !read) return read;
    write(place, std::string(checkpoint::parameter_state), host);
  }
  return {};
}

}  // namespace muster::train

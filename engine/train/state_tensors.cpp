#include "train/state_tensors.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::train {
namespace {

using parallel::FlatPiece;

spec::Dimensions dimensions_of(const FlatPiece& piece) {
  if (!piece.columns) return {{piece.rows}, 1};
  return {{piece.rows, *piece.columns}, 2};
}

}  // namespace

StateTensors::StateTensors(const parallel::Strategy& strategy, const optimizer::Optimizer& optimizer)
    : strategy_(strategy), optimizer_(optimizer), states_{std::string(checkpoint::parameter_state)} {
  for (const optimizer::OptimizerState& state : optimizer.states()) states_.push_back(state.name);
  const auto layouts = strategy.layouts();
  for (std::size_t unit = 0; unit < layouts.size(); ++unit)
    for (const FlatPiece& piece : layouts[unit].pieces(0, layouts[unit].elements())) {
      units_[piece.tensor] = unit;
      tensors_.push_back({piece.tensor, dimensions_of(piece), states_, piece.transposed});
    }
}

const at::Tensor& StateTensors::held(std::size_t unit, const std::string& state) const {
  if (state == checkpoint::parameter_state) return strategy_.shards()[unit].master;
  for (const optimizer::OptimizerState& known : optimizer_.states())
    if (known.name == state) return known.of_shards[unit];
  throw std::logic_error("a state that the optimizer does not have: " + state);
}

std::int64_t StateTensors::part_elements(std::size_t unit) const {
  return strategy_.layouts()[unit].part_elements(place().parts);
}

std::vector<FlatPiece> StateTensors::pieces(std::size_t unit, int part) const {
  const std::int64_t count = part_elements(unit);
  return strategy_.layouts()[unit].pieces(part * count, count);
}

std::optional<StateTensors::Held> StateTensors::find(const std::string& tensor, int part) const {
  const std::size_t unit = units_.at(tensor);
  std::vector<FlatPiece> all = pieces(unit, part);
  const auto found = std::ranges::find(all, tensor, &FlatPiece::tensor);
  return found == all.end() ? std::nullopt : std::optional(Held{unit, std::move(*found)});
}

std::vector<checkpoint::Piece> StateTensors::saved_pieces(int part) const {
  std::vector<checkpoint::Piece> saved;
  for (std::size_t unit = 0; unit < units(); ++unit)
    for (const std::string& state : states_)
      for (const FlatPiece& piece : pieces(unit, part))
        checkpoint::add_cut(saved, {piece.tensor, state, piece.first, piece.count});
  return saved;
}

std::span<float> StateTensors::copy_unit(std::size_t unit, int part, const at::Tensor& flat,
                                         std::span<float> to) const {
  for (const FlatPiece& piece : pieces(unit, part)) {
    at::from_blob(to.data(), {piece.count}, at::kFloat).copy_(flat.narrow(0, piece.offset, piece.count), true);
    to = to.subspan(static_cast<std::size_t>(piece.count));
  }
  return to;
}

void StateTensors::copy_to(checkpoint::HostCopy& copy) const {
  if (place().parts == 1) return copy_by_name(copy);
  std::span<float> to = copy.all();
  for (std::size_t unit = 0; unit < units(); ++unit)
    for (const std::string& state : states_) to = copy_unit(unit, place().part, held(unit, state), to);
}

void StateTensors::copy_by_name(checkpoint::HostCopy& copy) const {
  const auto pieces = copy.pieces();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto [unit, whole] = *find(pieces[i].tensor, 0);
    at::from_blob(copy.numbers(i).data(), {pieces[i].count}, at::kFloat)
        .copy_(held(unit, pieces[i].state).narrow(0, whole.offset + pieces[i].first, pieces[i].count), true);
  }
}

Result<void> StateTensors::read_unit(const PieceReader& reader, std::size_t unit, int part, const std::string& state,
                                     const at::Tensor& flat) const {
  for (const FlatPiece& piece : pieces(unit, part))
    if (auto read = reader(piece, state, flat); !read) return read;
  return {};
}

Result<void> StateTensors::read(const PieceReader& reader) const {
  for (std::size_t unit = 0; unit < units(); ++unit)
    for (const std::string& state : states_)
      if (auto read = read_unit(reader, unit, place().part, state, held(unit, state)); !read) return read;
  return {};
}

}  // namespace muster::train

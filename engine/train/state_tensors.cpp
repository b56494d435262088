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

StateTensors::StateTensors(const parallel::Strategy& strategy, const optimizer::Optimizer& optimizer,
                           std::string prefix)
    : strategy_(strategy),
      optimizer_(optimizer),
      prefix_(std::move(prefix)),
      states_{std::string(checkpoint::parameter_state)} {
  for (const optimizer::OptimizerState& state : optimizer.states()) states_.push_back(state.name);
  const auto layouts = strategy.layouts();
  for (std::size_t unit = 0; unit < layouts.size(); ++unit)
    for (const FlatPiece& piece : layouts[unit].pieces(0, layouts[unit].elements())) {
      units_[piece.tensor] = unit;
      tensors_.push_back({prefix_ + piece.tensor, dimensions_of(piece), states_of(unit, piece), piece.transposed});
    }
}

const optimizer::OptimizerState& StateTensors::remembered(const std::string& state) const {
  for (const optimizer::OptimizerState& known : optimizer_.states())
    if (known.name == state) return known;
  throw std::logic_error("a state that the optimizer does not have: " + state);
}

std::vector<std::string> StateTensors::states_of(std::size_t unit, const FlatPiece& whole) const {
  std::vector<std::string> names{std::string(checkpoint::parameter_state)};
  for (const optimizer::OptimizerState& state : optimizer_.states())
    if (!numbers_of(state, model::UnitId{unit}, {whole}).empty()) names.push_back(state.name);
  return names;
}

const at::Tensor& StateTensors::held(std::size_t unit, const std::string& state) const {
  if (state == checkpoint::parameter_state) return strategy_.shards()[unit].master;
  return remembered(state).of_shards[unit];
}

std::int64_t StateTensors::part_elements(std::size_t unit) const {
  return strategy_.layouts()[unit].part_elements(place().parts);
}

std::vector<FlatPiece> StateTensors::pieces(std::size_t unit, int part) const {
  const std::int64_t count = part_elements(unit);
  return strategy_.layouts()[unit].pieces(part * count, count);
}

std::vector<FlatPiece> StateTensors::numbers(std::size_t unit, int part, const std::string& state) const {
  std::vector<FlatPiece> all = pieces(unit, part);
  if (state == checkpoint::parameter_state) return all;
  return numbers_of(remembered(state), model::UnitId{unit}, all);
}

std::int64_t StateTensors::held_count(std::size_t unit, int part, const std::string& state) const {
  if (state == checkpoint::parameter_state || remembered(state).extent == optimizer::StateExtent::shard)
    return part_elements(unit);
  std::int64_t count = 0;
  for (const FlatPiece& piece : numbers(unit, part, state)) count += piece.count;
  return count;
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
      for (const FlatPiece& piece : numbers(unit, part, state))
        checkpoint::add_cut(saved, {prefix_ + piece.tensor, state, piece.first, piece.count});
  return saved;
}

// A copy may have pieces of several parts, and of a part not all.
void StateTensors::copy_unit(std::size_t unit, int part, const std::string& state, const at::Tensor& held,
                             checkpoint::HostCopy& copy) const {
  const at::ScalarType type = saved_type(state);
  const std::vector<FlatPiece> numbers = this->numbers(unit, part, state);
  for (std::size_t i = 0; i < copy.pieces().size(); ++i) {
    const checkpoint::Piece& wanted = copy.pieces()[i];
    if (wanted.state != state || !wanted.tensor.starts_with(prefix_)) continue;
    const std::string_view tensor = std::string_view(wanted.tensor).substr(prefix_.size());
    const auto piece = std::ranges::find(numbers, tensor, &FlatPiece::tensor);
    if (piece == numbers.end() || wanted.first < piece->first ||
        wanted.first + wanted.count > piece->first + piece->count)
      continue;
    at::from_blob(copy.bytes(i).data(), {wanted.count}, type)
        .copy_(held.narrow(0, piece->offset + wanted.first - piece->first, wanted.count), true);
  }
}

void StateTensors::copy_to(checkpoint::HostCopy& copy) const {
  for (std::size_t unit = 0; unit < units(); ++unit)
    for (const std::string& state : states_) copy_unit(unit, place().part, state, held(unit, state), copy);
}

Result<void> StateTensors::read_unit(const PieceReader& reader, std::size_t unit, int part, const std::string& state,
                                     const at::Tensor& flat) const {
  for (const FlatPiece& piece : numbers(unit, part, state))
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

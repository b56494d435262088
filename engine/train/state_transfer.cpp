#include "train/state_transfer.hpp"

#include <algorithm>

#include "train/element_blocks.hpp"

namespace muster::train {

StateTransfer::StateTransfer(communicate::Communicator& ranks, at::Device device, int saving_ranks,
                             const StateTensors& state)
    : ranks_(ranks), device_(device), saving_ranks_(saving_ranks), state_(state) {}

std::vector<int> StateTransfer::served() const {
  std::vector<int> parts;
  if (ranks_.rank() < savers())
    for (int part = ranks_.rank() + saving_ranks_; part < state_.place().parts; part += saving_ranks_)
      parts.push_back(part);
  return parts;
}

at::Tensor StateTransfer::room(std::int64_t count) const {
  return at::empty({count}, at::TensorOptions().dtype(at::kFloat).device(device_));
}

// As float32, whatever type the state has: it holds all numbers of the others, codes of 8 bits among them.
void StateTransfer::send(const at::Tensor& numbers, int to) const { ranks_.send(numbers.to(device_, at::kFloat), to); }

void StateTransfer::receive(const at::Tensor& numbers, int from) const {
  const bool fits = numbers.device() == device_ && numbers.scalar_type() == at::kFloat;
  const at::Tensor came = fits ? numbers : room(numbers.numel());
  ranks_.receive(came, from);
  if (!fits) numbers.copy_(came);
}

void StateTransfer::send_held(int to) const {
  each_held(state_.place().part, [&](std::size_t unit, const std::string& name) { send(state_.held(unit, name), to); });
}

void StateTransfer::receive_held(int from) const {
  each_held(state_.place().part,
            [&](std::size_t unit, const std::string& name) { receive(state_.held(unit, name), from); });
}

// What a part's rank holds nothing of is not exchanged.
void StateTransfer::each_held(int part, const std::function<void(std::size_t, const std::string&)>& use) const {
  for (std::size_t unit = 0; unit < state_.units(); ++unit)
    for (const std::string& name : state_.states())
      if (state_.held_count(unit, part, name) > 0) use(unit, name);
}

// ---- reading ----

Result<void> StateTransfer::read_for_others(const PieceReader& reader) const {
  for (const int part : served())
    for (std::size_t unit = 0; unit < state_.units(); ++unit)
      for (const std::string& name : state_.states()) {
        const std::int64_t count = state_.held_count(unit, part, name);
        if (count == 0) continue;
        const at::Tensor numbers = at::zeros({count}, at::kFloat);
        if (auto read = state_.read_unit(reader, unit, part, name, numbers); !read) return read;
        send(numbers, part);
      }
  return {};
}

void StateTransfer::broadcast_whole() const {
  each_held(0, [&](std::size_t unit, const std::string& name) {
    const at::Tensor& numbers = state_.held(unit, name);
    const bool is_coded = numbers.scalar_type() == at::kByte;
    const at::Tensor moved = numbers.to(device_, is_coded ? at::kFloat : numbers.scalar_type());
    ranks_.broadcast(moved, 0);
    if (!moved.is_same(numbers)) numbers.copy_(moved);
  });
}

Result<void> StateTransfer::fill(const PieceReader& reader) const {
  if (has_files())
    if (auto read = state_.read(reader); !read) return read;
  if (ranks_.size() <= saving_ranks_) return {};
  const auto [part, parts, copy, copies] = state_.place();
  if (parts == 1) return broadcast_whole(), Result<void>();
  if (copy > 0) {
    if (!has_files()) receive_held(part);
    return {};
  }
  if (!has_files())
    receive_held(server());
  else if (auto read = read_for_others(reader); !read)
    return read;
  for (int other = 1; other < copies; ++other)
    if (const int rank = other * parts + part; rank >= saving_ranks_) send_held(rank);
  return {};
}

// ---- saving ----

int StateTransfer::savers() const {
  const int parts = state_.place().parts;
  return parts == 1 ? saving_ranks_ : std::min(parts, saving_ranks_);
}

std::optional<std::vector<checkpoint::Piece>> StateTransfer::share() const {
  if (ranks_.rank() >= savers()) return std::nullopt;
  if (state_.place().parts == 1) return checkpoint::share_of(state_.tensors(), savers(), ranks_.rank());
  std::vector<checkpoint::Piece> pieces = state_.saved_pieces(state_.place().part);
  for (const int part : served()) std::ranges::move(state_.saved_pieces(part), std::back_inserter(pieces));
  return pieces;
}

void StateTransfer::bring_to_savers(checkpoint::HostCopy* copy) const {
  const auto place = state_.place();
  if (place.copy > 0 || place.parts <= saving_ranks_) return;
  if (!has_files()) return send_held(server());
  for (const int part : served())
    each_held(part, [&](std::size_t unit, const std::string& name) {
      const at::Tensor numbers = room(state_.held_count(unit, part, name));
      ranks_.receive(numbers, part);
      state_.copy_unit(unit, part, name, numbers, *copy);
    });
}

// ---- exporting ----

void StateTransfer::bring_to_first(const std::string& tensor, const at::Tensor& out) const {
  const auto place = state_.place();
  const std::string parameter(checkpoint::parameter_state);
  for (int part = 0; part < place.parts; ++part) {
    auto found = state_.find(tensor, part);
    if (!found || (ranks_.rank() != 0 && part != place.part)) continue;
    auto& [unit, piece] = *found;
    const bool here = part == place.part;
    const at::Tensor numbers =
        here ? state_.held(unit, parameter).narrow(0, piece.offset, piece.count) : room(piece.count);
    if (ranks_.rank() != 0) return send(numbers, 0);
    if (!here) ranks_.receive(numbers, part);
    piece.offset = 0;
    for (const ElementBlock& block : blocks_of(piece)) view_in_order(out, block).copy_(view_flat(numbers, block));
  }
}

}  // namespace muster::train

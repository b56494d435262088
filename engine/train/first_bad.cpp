#include "train/first_bad.hpp"

#include <map>

namespace muster::train {
namespace {

bool is_bad(const at::Tensor& values) { return values.is_floating_point() && !values.isfinite().all().item<bool>(); }

// Exact sums cannot hold what is no number, and only count it: then nothing is found here.
std::optional<std::int64_t> first_in(const StateTensors& state, const parallel::Strategy& strategy, bool gradients) {
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t i = 0; i < state.tensors().size(); ++i)
    numbers[state.tensors()[i].name] = static_cast<std::int64_t>(i);
  const auto shards = strategy.shards();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    // Gradients come from the head on.
    const parallel::Shard& shard = shards[gradients ? shards.size() - 1 - i : i];
    for (const parallel::FlatPiece& piece : shard.pieces)
      if (is_bad((gradients ? shard.gradient.values : shard.master).narrow(0, piece.offset, piece.count)))
        return numbers.at(piece.tensor);
  }
  return std::nullopt;
}

}  // namespace

BadTensor first_bad(const StateTensors& state, const parallel::Strategy& strategy, bool bad_loss) {
  if (const auto tensor = first_in(state, strategy, false)) return {BadTensor::Kind::parameter, *tensor};
  if (bad_loss) return {BadTensor::Kind::loss, 0};
  if (const auto tensor = first_in(state, strategy, true)) return {BadTensor::Kind::gradient, *tensor};
  const auto shards = strategy.shards();
  if (!shards.empty() && shards[0].gradient.overflow.defined() && shards[0].gradient.overflow.item<std::int64_t>() > 0)
    return {BadTensor::Kind::gradient, -1};
  return {};
}

std::optional<BadOnRank> agree_on_bad(const BadTensor& own, communicate::Communicator& ranks, at::Device device) {
  const at::Tensor mine =
      at::tensor({static_cast<std::int64_t>(own.kind), own.tensor}, at::TensorOptions().dtype(at::kLong)).to(device);
  at::Tensor all = at::empty({ranks.size(), 2}, mine.options());
  ranks.all_gather(mine, all);
  const at::Tensor host = all.cpu();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const BadTensor found{static_cast<BadTensor::Kind>(host[rank][0].item<std::int64_t>()),
                          host[rank][1].item<std::int64_t>()};
    if (found.kind != BadTensor::Kind::none) return BadOnRank{rank, found};
  }
  return std::nullopt;
}

std::string describe(const BadTensor& bad, const StateTensors& state) {
  const auto name = [&] { return state.tensors()[static_cast<std::size_t>(bad.tensor)].name; };
  switch (bad.kind) {
    case BadTensor::Kind::none:
      return "nothing";
    case BadTensor::Kind::parameter:
      return name();
    case BadTensor::Kind::loss:
      return "the loss";
    case BadTensor::Kind::gradient:
      return bad.tensor < 0 ? "a gradient" : "the gradient of " + name();
  }
  return "";
}

}  // namespace muster::train

#include "train/first_bad.hpp"

#include <map>
#include <stdexcept>

namespace muster::train {
namespace {

bool is_bad(const at::Tensor& values) { return !values.isfinite().all().item<bool>(); }

// A shard's gradients as plain sums: of exact ones the first half of their memory.
at::Tensor plain(const tensor::GradientSum& sum) {
  return sum.exact() ? sum.values.view(at::kFloat).narrow(0, 0, sum.values.numel()) : sum.values;
}

bool is_bad_gradient(const tensor::GradientSum& sum, const parallel::FlatPiece& piece) {
  const at::Tensor values = plain(sum).narrow(0, piece.offset, piece.count);
  return is_bad(values) || (sum.exact() && values.abs().max().item<double>() >= tensor::exact_limit);
}

std::optional<std::int64_t> first_in(const StateTensors& state, const parallel::Strategy& strategy, bool gradients) {
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t i = 0; i < state.tensors().size(); ++i)
    numbers[state.tensors()[i].name] = static_cast<std::int64_t>(i);
  const auto shards = strategy.shards();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    // Gradients come from the head on.
    const parallel::Shard& shard = shards[gradients ? shards.size() - 1 - i : i];
    for (const parallel::FlatPiece& piece : shard.pieces)
      if (gradients ? is_bad_gradient(shard.gradient, piece)
                    : is_bad(shard.master.narrow(0, piece.offset, piece.count)))
        return numbers.at(piece.tensor);
  }
  return std::nullopt;
}

}  // namespace

tensor::GradientSum PlainGradients::gradient(model::ParameterId parameter) {
  const tensor::GradientSum sum = strategy_.gradient(parameter);
  if (!sum.wanted() || !sum.exact()) return sum;
  const auto* first = sum.values.const_data_ptr<std::int64_t>();
  for (const parallel::Shard& shard : strategy_.shards()) {
    const auto* begin = shard.gradient.values.const_data_ptr<std::int64_t>();
    if (first < begin || first >= begin + shard.gradient.values.numel()) continue;
    return {plain(shard.gradient).narrow(0, first - begin, sum.values.numel()).view(sum.values.sizes()), {}};
  }
  throw std::logic_error("a gradient that is in no shard");
}

BadTensor first_bad(const StateTensors& state, const parallel::Strategy& strategy, bool bad_loss) {
  if (const auto tensor = first_in(state, strategy, false)) return {BadTensor::Kind::parameter, *tensor};
  if (bad_loss) return {BadTensor::Kind::loss, 0};
  if (const auto tensor = first_in(state, strategy, true)) return {BadTensor::Kind::gradient, *tensor};
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
      return "the gradient of " + name();
  }
  return "";
}

}  // namespace muster::train

#include "train/find_nonfinite.hpp"

#include <algorithm>
#include <utility>

namespace muster::train {
namespace {

bool is_bad(const at::Tensor& values) { return !values.isfinite().all().item<bool>(); }

bool is_bad_gradient(const at::Tensor& values, bool exact) {
  return is_bad(values) || (exact && values.abs().max().item<double>() >= tensor::exact_limit);
}

std::optional<std::int64_t> first_bad_parameter(const StateTensors& state, const parallel::Strategy& strategy) {
  for (const parallel::Shard& shard : strategy.shards())
    for (const parallel::FlatPiece& piece : shard.pieces)
      if (is_bad(shard.master.narrow(0, piece.offset, piece.count)))
        return std::ranges::find(state.tensors(), piece.tensor, &checkpoint::LogicalTensor::name) -
               state.tensors().begin();
  return std::nullopt;
}

}  // namespace

PlainGradients::PlainGradients(parallel::Strategy& strategy, at::Device device)
    : strategy_(strategy), device_(device), exact_(strategy.shards().front().gradient.exact()) {
  std::int64_t tensors = 0;
  for (const parallel::FlatLayout& layout : strategy.layouts()) {
    for (const auto& entry : layout.entries()) places_[entry.parameter] = {units_.size(), entry};
    units_.push_back({{}, tensors, {}});
    tensors += std::ssize(layout.pieces(0, layout.elements()));
  }
}

tensor::GradientSum PlainGradients::gradient(model::ParameterId parameter) {
  const Place& place = places_.at(parameter);
  at::Tensor& gradients = units_[place.unit].gradients;
  if (!gradients.defined())
    gradients =
        at::zeros({strategy_.layouts()[place.unit].elements()}, at::TensorOptions().dtype(at::kFloat).device(device_));
  return {parallel::FlatLayout::view(gradients, place.entry), {}};
}

void PlainGradients::gradients_complete(model::UnitId unit) {
  Unit& complete = units_[static_cast<std::size_t>(unit)];
  const at::Tensor gradients = std::exchange(complete.gradients, {});
  if (!gradients.defined()) return;
  const parallel::FlatLayout& layout = strategy_.layouts()[static_cast<std::size_t>(unit)];
  std::int64_t tensor = complete.first;
  for (const parallel::FlatPiece& piece : layout.pieces(0, layout.elements())) {
    if (complete.bad && *complete.bad <= tensor) return;
    if (is_bad_gradient(gradients.narrow(0, piece.offset, piece.count), exact_)) complete.bad = tensor;
    ++tensor;
  }
}

std::optional<std::int64_t> PlainGradients::find_nonfinite() const {
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit)
    if (unit->bad) return unit->bad;
  return std::nullopt;
}

BadTensor find_nonfinite(const StateTensors& state, const parallel::Strategy& strategy, bool bad_loss,
                    const PlainGradients& gradients) {
  if (const auto tensor = first_bad_parameter(state, strategy)) return {BadTensor::Kind::parameter, *tensor};
  if (bad_loss) return {BadTensor::Kind::loss, 0};
  if (const auto tensor = gradients.find_nonfinite()) return {BadTensor::Kind::gradient, *tensor};
  return {};
}

std::optional<BadOnRank> agree_on_bad(const BadTensor& own, communicate::Communicator& ranks, at::Device device) {
  const at::Tensor mine =
      at::tensor({static_cast<std::int64_t>(own.kind), own.tensor}, at::TensorOptions().dtype(at::kLong)).to(device);
  at::Tensor all = at::empty({ranks.size(), 2}, mine.options());
  ranks.all_gather(mine, all);
  const at::Tensor host = all.cpu();
  std::optional<BadOnRank> first;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const BadTensor found{static_cast<BadTensor::Kind>(host[rank][0].item<std::int64_t>()),
                          host[rank][1].item<std::int64_t>()};
    if (found.kind != BadTensor::Kind::none && (!first || found.kind < first->bad.kind)) first = BadOnRank{rank, found};
  }
  return first;
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

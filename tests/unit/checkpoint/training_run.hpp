// A make-believe training run: tensors whose numbers follow from their names and the step, and ranks that save them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "base/bit_mix.hpp"
#include "checkpoint/checkpoint_saver.hpp"
#include "checkpoint/training_checkpoint.hpp"

namespace muster::checkpoint::testing {

inline LogicalTensor tensor_of(std::string name, std::vector<std::int64_t> sizes,
                               std::vector<std::string> states = {"parameter", "first_moment", "second_moment"}) {
  LogicalTensor tensor{std::move(name), {}, std::move(states)};
  for (const std::int64_t size : sizes) tensor.dimensions.sizes[tensor.dimensions.rank++] = size;
  return tensor;
}

inline std::vector<LogicalTensor> sample_tensors() {
  return {tensor_of("model.embed_tokens.weight", {37, 8}),
          tensor_of("model.layers.0.mlp.up_proj.weight", {13, 11}),
          tensor_of("model.norm.weight", {5}),
          tensor_of("empty", {0, 4}),
          tensor_of("frozen", {3, 3}, {"parameter"}),
          tensor_of("coded", {41, 13}, {"parameter", "first_moment_codes", "first_moment_scales"}),
          tensor_of("scalar", {})};
}

// Any 32 bits, numbers that are none included: a checkpoint keeps bits.
inline float number_at(std::string_view tensor, std::string_view state, std::int64_t element, std::int64_t step) {
  const std::uint64_t name = std::hash<std::string_view>()(tensor) ^ mix_bits(std::hash<std::string_view>()(state));
  return std::bit_cast<float>(
      static_cast<std::uint32_t>(mix_bits(name ^ mix_bits(static_cast<std::uint64_t>(element * 1'000'003 + step)))));
}

// The bytes of these numbers of a state; a code is the first byte of the number at its place.
inline std::vector<std::byte> bytes_at(std::string_view tensor, std::string_view state, std::int64_t first,
                                       std::int64_t count, std::int64_t step) {
  const auto width = static_cast<std::size_t>(spec::bytes_per_element(form_of(state).type));
  std::vector<std::byte> bytes;
  for (std::int64_t k = 0; k < count; ++k) {
    const auto number = std::bit_cast<std::array<std::byte, sizeof(float)>>(number_at(tensor, state, first + k, step));
    bytes.insert(bytes.end(), number.begin(), number.begin() + static_cast<std::ptrdiff_t>(width));
  }
  return bytes;
}

inline void fill(HostCopy& copy, std::int64_t step) {
  for (std::size_t i = 0; i < copy.pieces().size(); ++i) {
    const Piece& piece = copy.pieces()[i];
    std::ranges::copy(bytes_at(piece.tensor, piece.state, piece.first, piece.count, step), copy.bytes(i).begin());
  }
}

inline TrainingState state_at(std::int64_t step) {
  TrainingState state;
  state.step = step;
  state.optimizer = "adamw";
  state.schedule = {{"peak", 2e-3}, {"warmup_steps", 10}};
  state.loss_scale = LossScale{65536, step};
  state.seed = ~std::uint64_t{0};
  state.cursor = {step / 7, step * 3};
  state.data_identity = "data \"é\" \\ 1";
  state.model_identity = "model";
  state.settings_hash = "settings";
  state.muster_version = "0.1";
  state.more = {{"third", 1.0 / 3}, {"tiny", 5e-324}};
  return state;
}

inline SaverContext place_of(const std::filesystem::path& folder, int rank, int ranks) {
  SaverContext place;
  place.folder = folder;
  place.attempt = "a1";
  place.rank = rank;
  place.ranks = ranks;
  return place;
}

// One save by all ranks, a saver each; the result of rank 0.
inline Result<SaveReport> save(const std::filesystem::path& folder, std::int64_t step, int ranks,
                               std::optional<int> keep = {}, const std::string& attempt = "a1") {
  const std::vector<LogicalTensor> tensors = sample_tensors();
  std::vector<std::unique_ptr<CheckpointSaver>> savers;
  for (int rank = 0; rank < ranks; ++rank) {
    SaverContext place = place_of(folder, rank, ranks);
    place.keep = keep;
    place.attempt = attempt;
    savers.push_back(std::make_unique<CheckpointSaver>(place, tensors));
    auto copy = std::make_shared<HostCopy>(share_of(tensors, ranks, rank));
    fill(*copy, step);
    if (const auto begun = savers.back()->begin(state_at(step), copy); !begun) return begun.error();
  }
  for (int rank = 1; rank < ranks; ++rank)
    if (const auto done = savers[static_cast<std::size_t>(rank)]->wait(); !done) return done.error();
  return savers[0]->wait();
}

// Whether every number, read in slices of so many elements, is the one of the step.
inline ::testing::AssertionResult holds(const TrainingCheckpoint& checkpoint, std::int64_t step,
                                        std::int64_t slice = 1 << 20) {
  if (checkpoint.state() != state_at(step)) return ::testing::AssertionFailure() << "another state";
  for (const LogicalTensor& tensor : checkpoint.tensors())
    for (const std::string& state : tensor.states)
      for (std::int64_t at = 0, all = number_count(tensor, state); at < all; at += slice) {
        const auto wanted = bytes_at(tensor.name, state, at, std::min(slice, all - at), step);
        std::vector<std::byte> out(wanted.size());
        if (const auto read = checkpoint.read(tensor.name, state, at, out); !read)
          return ::testing::AssertionFailure() << read.error().what;
        if (out != wanted) return ::testing::AssertionFailure() << state << " of " << tensor.name << " from " << at;
      }
  return ::testing::AssertionSuccess();
}

}  // namespace muster::checkpoint::testing

#include "model/pass.hpp"

#include <algorithm>

namespace muster::model {
namespace {

bool is_single(const SequencePart& part) { return part.rows == 1 && !part.blocks.empty(); }

std::int64_t count(const std::vector<std::int64_t>& values) { return static_cast<std::int64_t>(values.size()); }

}  // namespace

PassNumbers::PassNumbers(const Batch& batch, std::int64_t block_tokens, std::int64_t adapters)
    : rows_(batch.rows()), block_tokens_(block_tokens), adapters_(adapters) {
  const bool all_have_the_first = std::ranges::all_of(batch.parts, [](const auto& part) { return part.adapter == 0; });
  if (adapters == 1 && all_have_the_first) adapters_ = 0;
  for (const SequencePart& part : batch.parts) {
    if (!is_single(part)) continue;
    ++singles_;
    most_blocks_ = std::max(most_blocks_, count(part.blocks));
  }
  fill(batch);
}

PassNumbers::PassNumbers(const Batch& batch, std::int64_t block_tokens, std::int64_t adapters, std::int64_t rows,
                         std::int64_t most_blocks, std::int64_t spare_block)
    : rows_(rows), singles_(rows), most_blocks_(most_blocks), block_tokens_(block_tokens), adapters_(adapters) {
  Batch full = batch;
  full.tokens.resize(static_cast<std::size_t>(rows), 0);
  full.parts.resize(static_cast<std::size_t>(rows), {1, 0, 1, {spare_block}});
  fill(full);
}

void PassNumbers::fill(const Batch& batch) {
  const bool cached = block_tokens_ > 0;
  values_ = at::zeros({((cached ? 3 : 2) + (adapters_ > 0 ? 1 : 0)) * rows_ + singles_ * (1 + most_blocks_)}, at::kLong);
  auto* tokens = values_.mutable_data_ptr<std::int64_t>();
  std::ranges::copy(batch.tokens, tokens);
  std::int64_t* positions = tokens + rows_;
  std::int64_t* slots = positions + rows_;
  std::int64_t* single_row = slots + (cached ? rows_ : 0);
  std::int64_t* single_blocks = single_row + singles_;
  std::int64_t* adapter = single_blocks + singles_ * most_blocks_;
  std::int64_t row = 0;
  for (const SequencePart& part : batch.parts) {
    parts_.push_back({row, part.rows, part.position, part.blocks});
    if (is_single(part)) {
      *single_row++ = row;
      std::ranges::copy(part.blocks, single_blocks);
      single_blocks += most_blocks_;
    }
    for (std::int64_t i = 0; i < part.rows; ++i, ++row) {
      const std::int64_t position = part.position + i;
      positions[row] = position;
      if (adapters_ > 0) adapter[row] = part.adapter;
      if (cached)
        slots[row] = part.blocks.at(static_cast<std::size_t>(position / block_tokens_)) * block_tokens_ +
                     position % block_tokens_;
    }
  }
}

Pass PassNumbers::pass(const at::Tensor& values, KeyValueCache* cache) const {
  std::int64_t next = 0;
  const auto take = [&](std::int64_t length) {
    next += length;
    return values.narrow(0, next - length, length);
  };
  Pass pass;
  pass.tokens = take(rows_);
  pass.tables.parts = parts_;
  for (const tensor::AttentionPart& part : parts_) pass.sequence_rows.push_back(part.rows);
  pass.tables.block_tokens = block_tokens_;
  pass.tables.positions = take(rows_);
  if (block_tokens_ > 0) pass.tables.slots = take(rows_);
  pass.tables.single_rows = take(singles_);
  pass.tables.single_blocks = take(singles_ * most_blocks_).view({singles_, most_blocks_});
  if (adapters_ > 0) {
    const at::Tensor chosen = take(rows_).unsqueeze(1);
    for (std::int64_t i = 0; i < adapters_; ++i) pass.without_adapter.push_back(chosen.ne(i));
  }
  pass.cache = cache;
  return pass;
}

}  // namespace muster::model

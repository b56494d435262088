// A runner whose "model" is a hash of the tokens it finds in the cache: blocks have contents, so that a wrong copy,
// move or share changes every answer after it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <set>
#include <span>

#include "base/bit_mix.hpp"
#include "generate/step_runner.hpp"

namespace muster::generate {

struct ScriptedModel {
  std::uint64_t words = 50;  // of its vocabulary

  // After these tokens.
  tensor::ChosenToken choose(std::span<const std::int64_t> tokens, double uniform,
                             std::optional<std::int32_t> given) const {
    std::uint64_t state = 1;
    for (const std::int64_t token : tokens) state = mix_bits(state ^ mix_bits(static_cast<std::uint64_t>(token) + 1));
    const auto chosen = static_cast<std::int32_t>(mix_bits(state ^ std::bit_cast<std::uint64_t>(uniform)) % words);
    const std::int32_t token = given.value_or(chosen);
    return {token, static_cast<float>(mix_bits(state + static_cast<std::uint64_t>(token)) >> 40)};
  }
};

class ScriptedRunner final : public StepRunner {
 public:
  ScriptedRunner(int depth, std::int64_t blocks, std::int64_t block_tokens, ScriptedModel model = {})
      : depth_(depth),
        block_tokens_(static_cast<std::size_t>(block_tokens)),
        model_(model),
        blocks_(static_cast<std::size_t>(blocks), std::vector<std::int64_t>(block_tokens_, -7)) {}

  int depth() const override { return depth_; }

  void begin(const Step& step) override {
    steps.push_back(step);
    for (const model::BlockMove& move : step.moves) carry_out(move);
    std::vector<std::vector<std::int64_t>> seen;  // by row: what its sequence holds up to it
    std::set<std::int64_t> written;
    auto token = step.batch.tokens.begin();
    for (const model::SequencePart& part : step.batch.parts) {
      std::vector<std::int64_t> contents = earlier(part);
      for (std::int64_t row = 0; row < part.rows; ++row, ++token) {
        contents.push_back(*token);
        if (!part.blocks.empty()) write(part, part.position + row, *token, written);
        seen.push_back(contents);
      }
    }
    std::vector<tensor::ChosenToken> drawn;
    for (const Draw& draw : step.draws)
      drawn.push_back(model_.choose(seen.at(static_cast<std::size_t>(draw.row)), draw.uniform, draw.given));
    for (const auto& other : under_way_)  // what one step writes, no other that is under way does
      for (const std::int64_t block : written) EXPECT_FALSE(other.written.contains(block));
    under_way_.push_back({std::move(drawn), std::move(written)});
    most_under_way = std::max(most_under_way, under_way_.size());
    EXPECT_LE(under_way_.size(), static_cast<std::size_t>(depth_));
  }

  std::vector<tensor::ChosenToken> finish() override {
    under_way_at_finish.push_back(under_way_.size());
    auto first = std::move(under_way_.front());
    under_way_.pop_front();
    return std::move(first.drawn);
  }

  std::size_t count(model::BlockMove::Kind kind) const {
    std::size_t found = 0;
    for (const Step& step : steps)
      found += static_cast<std::size_t>(std::ranges::count(step.moves, kind, &model::BlockMove::kind));
    return found;
  }
  std::int64_t rows() const {
    std::int64_t sum = 0;
    for (const Step& step : steps) sum += step.batch.rows();
    return sum;
  }
  std::size_t on_host() const { return host_.size(); }

  std::vector<Step> steps;
  std::size_t most_under_way = 0;
  std::vector<std::size_t> under_way_at_finish;

 private:
  struct UnderWay {
    std::vector<tensor::ChosenToken> drawn;
    std::set<std::int64_t> written;
  };

  void carry_out(const model::BlockMove& move) {
    using Kind = model::BlockMove::Kind;
    const auto block = [&](std::int64_t index) -> std::vector<std::int64_t>& {
      return blocks_.at(static_cast<std::size_t>(index));
    };
    if (move.kind == Kind::copy) {
      block(move.to) = block(move.from);
    } else if (move.kind == Kind::to_host) {
      EXPECT_FALSE(host_.contains(move.to));
      host_[move.to] = block(move.from);
    } else {
      block(move.to) = host_.at(move.from);
      host_.erase(move.from);
    }
  }

  std::vector<std::int64_t> earlier(const model::SequencePart& part) const {
    std::vector<std::int64_t> contents;
    EXPECT_TRUE(part.position == 0 || !part.blocks.empty());
    for (std::size_t i = 0; i < static_cast<std::size_t>(part.position); ++i)
      contents.push_back(blocks_.at(static_cast<std::size_t>(part.blocks.at(i / block_tokens_)))[i % block_tokens_]);
    return contents;
  }

  void write(const model::SequencePart& part, std::int64_t position, std::int64_t token,
             std::set<std::int64_t>& written) {
    const auto place = static_cast<std::size_t>(position);
    const std::int64_t block = part.blocks.at(place / block_tokens_);
    blocks_.at(static_cast<std::size_t>(block))[place % block_tokens_] = token;
    written.insert(block);
  }

  int depth_;
  std::size_t block_tokens_;
  ScriptedModel model_;
  std::vector<std::vector<std::int64_t>> blocks_;
  std::map<std::int64_t, std::vector<std::int64_t>> host_;
  std::deque<UnderWay> under_way_;
};

}  // namespace muster::generate

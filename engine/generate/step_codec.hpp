// A step as whole numbers, to be sent to the ranks that hold a model's other layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/step.hpp"
#include "tensor/token_choice.hpp"

namespace muster::generate {

std::vector<std::int64_t> encode_step(const Step& step);
// Numbers that encode_step did not write are a bug: std::invalid_argument.
Step decode_step(std::span<const std::int64_t> numbers);

// What a step's draws gave, two numbers each.
std::vector<std::int64_t> encode_tokens(std::span<const tensor::ChosenToken> tokens);
std::vector<tensor::ChosenToken> decode_tokens(std::span<const std::int64_t> numbers);

}  // namespace muster::generate

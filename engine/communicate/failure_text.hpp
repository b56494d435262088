// The words for what goes wrong between ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

namespace muster::communicate {

// "all_reduce of 1024 Float".
std::string describe(const std::string& operation, const at::Tensor& tensor);
// "rank 2", "ranks 1, 2 and 5".
std::string list_ranks(const std::vector<int>& ranks);
// missing may be empty: then it is not known which ranks.
std::string timeout_text(const std::string& description, std::chrono::milliseconds timeout,
                         const std::vector<int>& missing, int size);
// All arrived, and these have shown no sign of life since.
std::string silence_text(const std::string& description, std::chrono::milliseconds timeout,
                         const std::vector<int>& silent, int size);
std::string mismatch_text(int rank, const std::string& own, int other, const std::string& theirs);
// The first line of what a library threw, without its stack and its place in the source.
std::string first_line(const std::exception& problem);

}  // namespace muster::communicate

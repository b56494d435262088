#include "communicate/failure_text.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "base/duration.hpp"
#include "base/text.hpp"

namespace muster::communicate {

std::string describe(const std::string& operation, const at::Tensor& tensor) {
  return fmt::format("{} of {} {}", operation, tensor.numel(), c10::toString(tensor.scalar_type()));
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t position = 0; position < ranks.size(); ++position) {
    if (position > 0) text += position + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[position]);
  }
  return text;
}

std::string timeout_text(const std::string& description, std::chrono::milliseconds timeout,
                         const std::vector<int>& missing, int size) {
  if (missing.empty())
    return fmt::format("{}: not done within {}, though all {} ranks came to it", description, to_string(timeout), size);
  return fmt::format("{}: {} of {} did not come to it within {}", description, list_ranks(missing), size,
                     to_string(timeout));
}

std::string silence_text(const std::string& description, std::chrono::milliseconds timeout,
                         const std::vector<int>& silent, int size) {
  return fmt::format("{}: not done within {}; {} of {} came to it and then showed no life", description,
                     to_string(timeout), list_ranks(silent), size);
}

std::string mismatch_text(int rank, const std::string& own, int other, const std::string& theirs) {
  return fmt::format("ranks do different things: rank {} is in {}, rank {} in {}", rank, own, other, theirs);
}

std::string first_line(const std::exception& problem) {
  const auto* known = dynamic_cast<const c10::Error*>(&problem);
  std::string text = known != nullptr ? known->what_without_backtrace() : problem.what();
  text.resize(std::min(text.find('\n'), text.size()));
  if (text.starts_with('['))
    if (const auto end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
  return std::string(trim(text));
}

}  // namespace muster::communicate

#include "checkpoint/logical_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/text.hpp"

namespace muster::checkpoint {
namespace {

constexpr std::int64_t longest_piece = std::int64_t{16} << 20;  // numbers: at most 64 MiB
constexpr std::int64_t scale_block = 256;
constexpr std::int64_t most_elements = std::numeric_limits<std::int64_t>::max() / 16;

Error wrong_tensor(const LogicalTensor& tensor, std::string what) {
  return {Error::Kind::bad_input, fmt::format("tensor {}: {}", tensor.name, what), ""};
}

bool is_state_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
  });
}

// Whether the product of the sizes is a possible number of elements, whose bytes can still be counted.
bool has_possible_size(const spec::Dimensions& dimensions) {
  std::int64_t elements = 1;
  for (const std::int64_t size : dimensions.span())
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return false;
  return elements <= most_elements;
}

Result<void> check_tensor(const LogicalTensor& tensor) {
  if (tensor.name.empty() || !is_utf8(tensor.name)) return wrong_tensor(tensor, "a name that cannot be");
  if (!has_possible_size(tensor.dimensions)) return wrong_tensor(tensor, "a shape that cannot be");
  if (tensor.transposed && tensor.dimensions.rank != 2) return wrong_tensor(tensor, "transposed, and no matrix");
  std::set<std::string_view> seen;
  for (const std::string& state : tensor.states)
    if (!is_state_name(state) || !seen.insert(state).second)
      return wrong_tensor(tensor, fmt::format("state \"{}\" has no name of small letters, or is there twice", state));
  if (!seen.contains(parameter_state)) return wrong_tensor(tensor, "it has no state \"parameter\"");
  return {};
}

}  // namespace

StateForm form_of(std::string_view state) {
  if (state.ends_with("_codes")) return {spec::ElementType::uint8, 1};
  if (state.ends_with("_scales")) return {spec::ElementType::float32, scale_block};
  return {};
}

std::int64_t number_count(const LogicalTensor& tensor, std::string_view state) {
  const std::int64_t elements = tensor.dimensions.elements(), block = form_of(state).block;
  return elements / block + (elements % block > 0 ? 1 : 0);
}

std::int64_t byte_count(const LogicalTensor& tensor, std::string_view state) {
  return number_count(tensor, state) * spec::bytes_per_element(form_of(state).type);
}

std::int64_t byte_count(const LogicalTensor& tensor) {
  std::int64_t bytes = 0;
  for (const std::string& state : tensor.states) bytes += byte_count(tensor, state);
  return bytes;
}

// Twice transposed is not transposed.
spec::Dimensions model_dimensions(const LogicalTensor& tensor) {
  spec::Dimensions dimensions = tensor.dimensions;
  if (tensor.transposed) std::swap(dimensions.sizes[0], dimensions.sizes[1]);
  return dimensions;
}

std::vector<LogicalTensor> trained_tensors(const spec::ModelShape& shape, const std::vector<std::string>& states) {
  std::vector<LogicalTensor> tensors;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const spec::TensorShape& tensor = shape.tensors[i];
    if (tensor.kind != spec::TensorKind::parameter || tensor.same_as) continue;
    LogicalTensor logical{shape.path(spec::TensorId{i}),
                          tensor.dimensions,
                          {std::string(parameter_state)},
                          shape.is_transposed(spec::TensorId{i})};
    logical.dimensions = model_dimensions(logical);
    logical.states.insert(logical.states.end(), states.begin(), states.end());
    tensors.push_back(std::move(logical));
  }
  return tensors;
}

std::vector<Piece> share_of(std::span<const LogicalTensor> tensors, int ranks, int rank) {
  __extension__ using Wide = __int128;
  Wide total = 0;
  for (const LogicalTensor& tensor : tensors) total += byte_count(tensor);
  const Wide begin = total * rank / ranks, end = total * (rank + 1) / ranks;
  std::vector<Piece> pieces;
  Wide start = 0;  // of the state, among all
  for (const LogicalTensor& tensor : tensors)
    for (const std::string& state : tensor.states) {
      const Wide bytes = byte_count(tensor, state), width = spec::bytes_per_element(form_of(state).type);
      const Wide first = std::clamp<Wide>(begin - start, 0, bytes) / width,
                 last = std::clamp<Wide>(end - start, 0, bytes) / width;
      add_cut(pieces, {tensor.name, state, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last - first)});
      start += bytes;
    }
  return pieces;
}

void add_cut(std::vector<Piece>& pieces, const Piece& piece) {
  for (std::int64_t done = 0; done < piece.count; done += longest_piece)
    pieces.push_back({piece.tensor, piece.state, piece.first + done, std::min(longest_piece, piece.count - done)});
}

std::int64_t byte_count(std::span<const Piece> pieces) {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes();
  return bytes;
}

Result<void> check_tensors(std::span<const LogicalTensor> tensors) {
  std::set<std::string_view> seen;
  std::int64_t total = 0;
  for (const LogicalTensor& tensor : tensors) {
    if (auto checked = check_tensor(tensor); !checked) return checked;
    if (!seen.insert(tensor.name).second) return wrong_tensor(tensor, "it is there twice");
    std::int64_t elements = 0;
    if (__builtin_mul_overflow(tensor.dimensions.elements(), static_cast<std::int64_t>(tensor.states.size()),
                               &elements) ||
        __builtin_add_overflow(total, elements, &total) || total > most_elements)
      return wrong_tensor(tensor, "more elements than there can be");
  }
  return {};
}

Result<void> check_coverage(std::span<const LogicalTensor> tensors, std::span<const Piece> pieces,
                            const std::string& source) {
  struct Range {
    std::int64_t first, count;
  };
  std::map<std::pair<std::string_view, std::string_view>, std::vector<Range>> ranges;
  for (const Piece& piece : pieces) ranges[{piece.tensor, piece.state}].push_back({piece.first, piece.count});
  const auto wrong = [&](const std::string& what) {
    return Error{Error::Kind::bad_input, fmt::format("{}: {}", source, what), ""};
  };
  for (const LogicalTensor& tensor : tensors)
    for (const std::string& state : tensor.states) {
      auto found = ranges.extract({tensor.name, state});
      const std::int64_t numbers = number_count(tensor, state);
      std::int64_t reached = 0;
      if (found) {
        std::ranges::sort(found.mapped(), {}, &Range::first);
        for (const auto& [first, count] : found.mapped()) {
          if (first != reached || count <= 0 || count > numbers - reached)
            return wrong(fmt::format("{} of {}: a piece of {} elements from {} on, where one from {} of {} was due",
                                     state, tensor.name, count, first, reached, numbers));
          reached += count;
        }
      }
      if (reached != numbers)
        return wrong(
            fmt::format("{} of {}: elements {} to {} are in no file", state, tensor.name, reached, numbers));
    }
  if (!ranges.empty())
    return wrong(fmt::format("{} of {} is in a file, and the checkpoint has no such state",
                             ranges.begin()->first.second, ranges.begin()->first.first));
  return {};
}

}  // namespace muster::checkpoint

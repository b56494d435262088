// The parts of one quantised matrix, looked up and compared with what they must be.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spec/model/quantized/quantized_tensors.hpp"

namespace muster::spec {

// What the files hold, by name.
using HeldTensors = std::unordered_map<std::string_view, const StoredTensor*>;

class QuantizedParts {
 public:
  using Sizes = std::initializer_list<std::int64_t>;
  using Types = std::initializer_list<ElementType>;

  QuantizedParts(const HeldTensors& held, QuantizedMatrix& matrix, std::vector<std::string>& problems,
                 std::set<std::string, std::less<>>& used)
      : held_(held), matrix_(matrix), problems_(problems), used_(used) {}

  const QuantizedMatrix& matrix() const { return matrix_; }
  const StoredTensor* find(std::string_view word) const;
  bool has(std::string_view word) const { return find(word) != nullptr; }

  // It is there, is of one of these types and has one of these shapes; each failure is a problem.
  void require(std::string_view word, Types types, std::initializer_list<Sizes> shapes);
  // It is there; the caller knows what it may be. nullptr, and a problem, where it is not.
  const StoredTensor* require(std::string_view word);
  // Known, and without a meaning for the weight.
  void ignore(std::string_view word);
  void share_scales(std::int64_t rows, std::int64_t columns);
  void hold_codes(const WeightPacking& packing) { matrix_.packing = packing; }
  void note(std::string_view word, std::string what);
  // size must be a multiple of part.
  void divides(std::string_view what, std::int64_t part, std::string_view whole, std::int64_t size);

 private:
  void use(const StoredTensor& tensor);

  const HeldTensors& held_;
  QuantizedMatrix& matrix_;
  std::vector<std::string>& problems_;
  std::set<std::string, std::less<>>& used_;
};

constexpr std::int64_t divided_up(std::int64_t number, std::int64_t part) { return number / part + (number % part != 0 ? 1 : 0); }

}  // namespace muster::spec

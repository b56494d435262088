// The Cholesky factor of a symmetric positive-definite matrix, and solving with it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace muster::sweep {

// Square, row by row.
struct Matrix {
  std::size_t size = 0;
  std::vector<double> elements;

  explicit Matrix(std::size_t rows = 0) : size(rows), elements(rows * rows) {}
  double* row(std::size_t index) { return elements.data() + index * size; }
  const double* row(std::size_t index) const { return elements.data() + index * size; }
};

class Cholesky {
 public:
  // Decomposes the matrix whose upper triangle is given; nothing when it is not positive definite.
  static std::optional<Cholesky> of(Matrix upper);

  std::size_t size() const { return factor_.size; }
  double log_determinant() const;
  // The x with A x = right.
  std::vector<double> solve(std::vector<double> right) const;
  // rows: size() × width, column by column a right side b; becomes the x with L x = b, where A = L Lᵀ.
  void solve_lower(std::span<double> rows, std::size_t width) const;
  Matrix inverse() const;

 private:
  explicit Cholesky(Matrix factor) : factor_(std::move(factor)) {}

  Matrix factor_;  // upper: A = factorᵀ factor
};

}  // namespace muster::sweep

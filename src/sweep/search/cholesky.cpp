#include "sweep/search/cholesky.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace muster::sweep {
namespace {

// Loops over adjacent rows: the compiler vectorises them without changing the order of any sum.
void subtract_multiple(double* __restrict row, const double* __restrict other, double factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) row[i] -= factor * other[i];
}

constexpr std::size_t block_width = 16;  // right sides at a time

// Solves a block of right sides, row by row; each row is summed up in registers.
void solve_block(const Matrix& lower, double* block) {
  for (std::size_t j = 0; j < lower.size; ++j) {
    const double* factors = lower.row(j);
    double* own = block + j * block_width;
    std::array<double, block_width> rest;
    for (std::size_t i = 0; i < block_width; ++i) rest[i] = own[i];
    for (std::size_t k = 0; k < j; ++k)
      for (std::size_t i = 0; i < block_width; ++i) rest[i] -= factors[k] * block[k * block_width + i];
    for (std::size_t i = 0; i < block_width; ++i) own[i] = rest[i] / factors[j];
  }
}

}  // namespace

std::optional<Cholesky> Cholesky::of(Matrix upper) {
  const std::size_t size = upper.size;
  for (std::size_t k = 0; k < size; ++k) {
    double* pivot = upper.row(k);
    if (!(pivot[k] > 0) || !std::isfinite(pivot[k])) return std::nullopt;
    const double root = std::sqrt(pivot[k]);
    for (std::size_t j = k; j < size; ++j) pivot[j] /= root;
    for (std::size_t i = k + 1; i < size; ++i) subtract_multiple(upper.row(i) + i, pivot + i, pivot[i], size - i);
  }
  return Cholesky(std::move(upper));
}

double Cholesky::log_determinant() const {
  double sum = 0;
  for (std::size_t k = 0; k < size(); ++k) sum += std::log(factor_.row(k)[k]);
  return 2 * sum;
}

std::vector<double> Cholesky::solve(std::vector<double> right) const {
  const std::size_t count = size();
  for (std::size_t k = 0; k < count; ++k) {
    right[k] /= factor_.row(k)[k];
    subtract_multiple(right.data() + k + 1, factor_.row(k) + k + 1, right[k], count - k - 1);
  }
  for (std::size_t k = count; k-- > 0;) {
    double rest = right[k];
    for (std::size_t j = k + 1; j < count; ++j) rest -= factor_.row(k)[j] * right[j];
    right[k] = rest / factor_.row(k)[k];
  }
  return right;
}

void Cholesky::solve_lower(std::span<double> rows, std::size_t width) const {
  Matrix lower(size());
  for (std::size_t k = 0; k < size(); ++k)
    for (std::size_t j = k; j < size(); ++j) lower.row(j)[k] = factor_.row(k)[j];
  std::vector<double> block(size() * block_width);
  for (std::size_t begin = 0; begin < width; begin += block_width) {
    const std::size_t columns = std::min(block_width, width - begin);
    for (std::size_t k = 0; k < size(); ++k)
      std::copy_n(rows.data() + k * width + begin, columns, block.data() + k * block_width);
    solve_block(lower, block.data());
    for (std::size_t k = 0; k < size(); ++k)
      std::copy_n(block.data() + k * block_width, columns, rows.data() + k * width + begin);
  }
}

Matrix Cholesky::inverse() const {
  const std::size_t count = size();
  Matrix lower(count);  // the inverse of L
  for (std::size_t i = 0; i < count; ++i) lower.row(i)[i] = 1;
  for (std::size_t k = 0; k < count; ++k) {
    double* own = lower.row(k);
    for (std::size_t i = 0; i <= k; ++i) own[i] /= factor_.row(k)[k];
    for (std::size_t j = k + 1; j < count; ++j) subtract_multiple(lower.row(j), own, factor_.row(k)[j], k + 1);
  }
  Matrix product(count);
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t i = 0; i <= k; ++i) subtract_multiple(product.row(i), lower.row(k), -lower.row(k)[i], k + 1);
  return product;
}

}  // namespace muster::sweep

// Reductions of rows of logits for one kind of lanes.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/draw_weight.hpp"
#include "kernels/lanes/lane_math.hpp"
#include "kernels/row_access.hpp"
#include "kernels/row_jobs.hpp"

namespace muster::kernels {

template <class L>
struct LogitsKernels {
  static constexpr float lowest = -std::numeric_limits<float>::infinity();

  // Lanes past the end become `beyond`.
  template <class Element>
  [[gnu::always_inline]] static L load(const Element* row, std::int64_t left, float beyond) {
    if (left >= 16) return L::load(row);
    return L::where_less(L::indices(), L::broadcast(static_cast<float>(left)), load_some<L>(row, left),
                         L::broadcast(beyond));
  }

  template <class Element>
  static float largest(const Element* row, std::int64_t columns) {
    L most = L::broadcast(lowest);
    for (std::int64_t i = 0; i < columns; i += 16) most = L::maximum(load(row + i, columns - i, lowest), most);
    return most.largest();
  }

  // Σ e^(scale (logit - most)), in chains of 4,096 elements
  template <class Element>
  static float sum_of_powers(const Element* row, std::int64_t columns, float most, float scale = 1.0F) {
    constexpr std::int64_t chain = 4096;
    L total = L::broadcast(0.0F);
    for (std::int64_t first = 0; first < columns; first += chain) {
      L sum = L::broadcast(0.0F);
      for (std::int64_t i = first; i < columns && i < first + chain; i += 16) {
        const L below = load(row + i, columns - i, lowest) - L::broadcast(most);
        sum = sum + exponential(below * L::broadcast(scale));
      }
      total = total + sum;
    }
    return total.sum();
  }

  static float log_of(float x) {
    if (std::isnan(x)) return x;
    alignas(64) float all[16];
    logarithm(L::broadcast(x)).store(static_cast<float*>(all));
    return all[0];
  }

  template <class Element>
  static void write_softmax(const Element* row, std::int64_t columns, float most, float* output) {
    const L sum = L::broadcast(sum_of_powers(row, columns, most));
    for (std::int64_t i = 0; i < columns; i += 16) {
      const L power = exponential(load(row + i, columns - i, lowest) - L::broadcast(most));
      store_some(power / sum, output + i, columns - i);
    }
  }

  template <class Element>
  static std::int64_t first_index(const Element* row, std::int64_t columns, float most) {
    for (std::int64_t i = 0; i < columns; i += 16) {
      if (load(row + i, columns - i, lowest).largest() < most) continue;
      alignas(64) float values[16];
      load(row + i, columns - i, lowest).store(static_cast<float*>(values));
      for (std::int64_t j = 0; j < 16 && i + j < columns; ++j) {
        if (values[j] == most) return i + j;
      }
    }
    return 0;
  }

  // factor · (1 at the token - probability), of the softmax of logits · inverse_temperature
  template <class Element>
  static void write_gradient(const LogitsJob& job, const Element* values, std::int64_t row, float row_log_sum,
                             float row_factor) {
    const std::int64_t columns = job.logits.columns;
    Element* output = static_cast<Element*>(job.gradient) + row * columns;
    const L log_sum = L::broadcast(row_log_sum);
    const L factor = L::broadcast(row_factor);
    const L inverse_temperature = L::broadcast(job.inverse_temperature);
    for (std::int64_t i = 0; i < columns; i += 16) {
      const L place = L::indices() + L::broadcast(static_cast<float>(i - job.tokens[row]));
      const L distance = L::absolute(place);
      const L hit = L::where_less(distance, L::broadcast(0.5F), L::broadcast(1.0F), L::broadcast(0.0F));
      const L probability = exponential(load(values + i, columns - i, lowest) * inverse_temperature - log_sum);
      store_some(factor * (hit - probability), output + i, columns - i);
    }
  }

  // e^x is 0 from here on down, and 0 times the lowest of all would not be a number.
  static constexpr float no_power = -200.0F;

  // Σ e^x · x with x = scale (logit - most), in chains of 4,096 elements
  template <class Element>
  static float sum_of_weighed(const Element* row, std::int64_t columns, float most, float scale) {
    constexpr std::int64_t chain = 4096;
    L total = L::broadcast(0.0F);
    for (std::int64_t first = 0; first < columns; first += chain) {
      L sum = L::broadcast(0.0F);
      for (std::int64_t i = first; i < columns && i < first + chain; i += 16) {
        const L below = (load(row + i, columns - i, lowest) - L::broadcast(most)) * L::broadcast(scale);
        const L bounded = L::maximum(below, L::broadcast(no_power));
        sum = sum + exponential(bounded) * bounded;
      }
      total = total + sum;
    }
    return total.sum();
  }

  // inverse temperature · (weight · (probability - 1 at the token) + entropy weight · probability · (ln of it + entropy))
  template <class Element>
  static void write_gradient_with_entropy(const LogitsJob& job, const Element* values, std::int64_t row,
                                          float row_log_sum) {
    const std::int64_t columns = job.logits.columns;
    Element* output = static_cast<Element*>(job.gradient) + row * columns;
    const L log_sum = L::broadcast(row_log_sum), entropy = L::broadcast(job.entropies[row]);
    const L inverse_temperature = L::broadcast(job.inverse_temperature);
    const L weight = L::broadcast(job.loss_weights[row] * job.inverse_temperature);
    const L entropy_weight = L::broadcast(job.entropy_weights[row] * job.inverse_temperature);
    for (std::int64_t i = 0; i < columns; i += 16) {
      const L place = L::indices() + L::broadcast(static_cast<float>(i - job.tokens[row]));
      const L hit =
          L::where_less(L::absolute(place), L::broadcast(0.5F), L::broadcast(1.0F), L::broadcast(0.0F));
      const L chance = L::maximum(load(values + i, columns - i, lowest) * inverse_temperature - log_sum,
                                  L::broadcast(no_power));
      const L probability = exponential(chance);
      store_some(weight * (probability - hit) + entropy_weight * probability * (chance + entropy), output + i,
                 columns - i);
    }
  }

  // The token's loss, then the gradient, which may take the logits' place.
  template <class Element>
  static void write_loss(const LogitsJob& job, const Element* values, std::int64_t row, float most) {
    const float sum = sum_of_powers(values, job.logits.columns, most, job.inverse_temperature);
    const float log_sum = log_of(sum);
    job.results[row] = log_sum - (widen(values[job.tokens[row]]) - most) * job.inverse_temperature;
    if (job.entropies != nullptr) {
      job.entropies[row] = log_sum - sum_of_weighed(values, job.logits.columns, most, job.inverse_temperature) / sum;
      write_gradient_with_entropy(job, values, row, most * job.inverse_temperature + log_sum);
      return;
    }
    write_gradient(job, values, row, most * job.inverse_temperature + log_sum,
                   -job.loss_weights[row] * job.inverse_temperature);
  }

  template <class Element>
  static void reduce_row(const LogitsJob& job, std::int64_t row) {
    const std::int64_t columns = job.logits.columns;
    const Element* values = static_cast<const Element*>(job.logits.values) + row * columns;
    if (job.reduction == LogitsReduction::select_back)
      return write_gradient(job, values, row, job.log_sums[row], job.result_gradients[row]);
    const float most = largest(values, columns);
    switch (job.reduction) {
      case LogitsReduction::log_sum:
        job.results[row] = most + log_of(sum_of_powers(values, columns, most));
        break;
      case LogitsReduction::select:
        job.results[row] = (widen(values[job.tokens[row]]) - most) * job.inverse_temperature -
                           log_of(sum_of_powers(values, columns, most, job.inverse_temperature));
        break;
      case LogitsReduction::softmax:
        write_softmax(values, columns, most, job.results + row * columns);
        break;
      case LogitsReduction::argmax:
        job.indices[row] = first_index(values, columns, most);
        break;
      case LogitsReduction::loss:
        write_loss(job, values, row, most);
        break;
      case LogitsReduction::select_back:
        break;
    }
  }

  // units: elements
  static void weigh(const WeighJob& job, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      job.weights[i] = draw_weight(draw_exponent(job.logits[i], job.highest, job.temperature));
  }

  // units: rows
  static void reduce(const LogitsJob& job, std::int64_t begin, std::int64_t end) {
    with_element(job.logits.io, [&](auto element) {
      for (std::int64_t row = begin; row < end; ++row) reduce_row<decltype(element)>(job, row);
    });
  }
};

}  // namespace muster::kernels

// get_balanced_memory and get_max_memory of the originals.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "plan/compat_error.hpp"
#include "plan/compat_map.hpp"
#include "plan/compat_sizes.hpp"

namespace muster::plan {
namespace {

using spec::ModelShape;

bool is_gpu(const Budget& budget) { return budget.place.kind == Place::Kind::gpu; }
bool is_empty(const Budget& budget) { return budget.bytes.value == 0 && budget.fraction == 0; }
bool is_less(const Budget& a, const Budget& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.fraction < b.fraction;
}

void limit(Budget& budget, const Budget& other) {
  if (!is_less(other, budget)) return;
  budget.bytes = other.bytes;
  budget.fraction = other.fraction;
}

void take_ninety_percent(Budget& budget) {
  const double value = 0.9 * (static_cast<double>(budget.bytes.value) + budget.fraction);
  budget.bytes.value = static_cast<std::int64_t>(value);
  budget.fraction = value - std::floor(value);
}

// The size of the first module of each class in the order of accelerate's table (modules that hold parameters come
// before those that hold buffers alone); the largest of them.
Eighths first_whole_module(const ModelShape& shape, const CompatSizes& sizes) {
  std::unordered_set<std::string_view> seen;
  Eighths largest = 0;
  for (const bool with_parameters : {true, false}) {
    for (std::size_t i = 1; i < shape.modules.size(); ++i) {
      if (!sizes.is_whole[i] || !sizes.holds_tensor[i] || sizes.holds_parameter[i] != with_parameters) continue;
      if (seen.insert(shape.modules[i].class_name).second) largest = std::max(largest, sizes.modules[i]);
    }
  }
  return largest;
}

// accelerate's mean over modules of its table that have no module of the table below them.
double mean_of_final_modules(const ModelShape& shape, const CompatSizes& sizes) {
  std::vector<bool> has_child(shape.modules.size());
  Eighths sum = 0;
  std::size_t count = 0;
  for (std::size_t i = shape.modules.size(); i-- > 1;) {
    if (!sizes.holds_tensor[i]) continue;
    has_child[number(*shape.modules[i].parent)] = true;
    if (has_child[i]) continue;
    sum += sizes.modules[i];
    ++count;
  }
  return std::floor(in_bytes(sum) / static_cast<double>(std::max<std::size_t>(count, 1)));
}

// transformers looks at all modules of the classes, the root included; without any, it fails.
Result<Eighths> largest_whole_module(const CompatRequest& request, const CompatSizes& sizes) {
  Eighths largest = 0;
  bool found = request.whole_classes.empty();
  for (std::size_t i = 0; i < sizes.modules.size(); ++i) {
    if (!sizes.is_whole[i]) continue;
    found = true;
    largest = std::max(largest, sizes.modules[i]);
  }
  if (found) return largest;
  return fails_in_original(
      request.rules, "ValueError",
      fmt::format("it takes the largest of no modules: none is of the classes that are never split "
                  "({})",
                  fmt::join(request.whole_classes, ", ")),
      "name classes that the model has");
}

// The largest sum of the tensors that one module below the root holds itself.
Eighths largest_holder(const ModelShape& shape, const CompatSizes& sizes) {
  Eighths largest = 0;
  for (std::size_t i = 1; i < shape.modules.size(); ++i) {
    const spec::ModuleShape& module = shape.modules[i];
    Eighths sum = 0;
    for (std::size_t tensor = 0; tensor < module.tensor_count; ++tensor)
      sum += sizes.tensors[module.first_tensor + tensor];
    largest = std::max(largest, sum);
  }
  return largest;
}

// What each GPU gets beyond its equal share, in bytes.
Result<std::int64_t> slack(const ModelShape& shape, const CompatRequest& request, const CompatSizes& sizes) {
  double largest = 0;
  if (request.rules == CompatRules::accelerate) {
    largest = std::max(in_bytes(first_whole_module(shape, sizes)), mean_of_final_modules(shape, sizes));
  } else {
    const auto whole = largest_whole_module(request, sizes);
    if (!whole) return whole.error();
    largest = in_bytes(std::max(*whole, largest_holder(shape, sizes)));
  }
  return static_cast<std::int64_t>(1.25 * largest);
}

Budget* find_gpu(std::vector<Budget>& budgets, std::size_t gpu) {
  const auto found = std::find_if(budgets.begin(), budgets.end(), [&](const Budget& budget) {
    return is_gpu(budget) && budget.place.gpu == static_cast<int>(gpu);
  });
  return found == budgets.end() ? nullptr : &*found;
}

Error missing_gpu(const CompatRequest& request, const std::vector<Budget>& budgets, std::size_t gpu) {
  std::string given;
  for (const Budget& budget : budgets)
    if (is_gpu(budget)) given += fmt::format("{}{}", given.empty() ? "" : ", ", budget.place.gpu);
  return fails_in_original(
      request.rules, fmt::format("KeyError: {}", gpu),
      fmt::format("balanced_low_0 looks budgets up by the numbers 0, 1, … and the GPUs are {}", given),
      "number the GPUs from 0 on without gaps (CUDA_VISIBLE_DEVICES)");
}

// GPU 0 gets what the budgets of GPUs 1 … count-1 leave over.
Result<void> lower_first(const CompatRequest& request, const CompatSizes& sizes, std::vector<Budget>& budgets,
                         std::size_t count) {
  std::int64_t whole = sizes.total() / 8;
  double fraction = static_cast<double>(sizes.total() % 8) / 8;
  for (std::size_t gpu = 1; gpu < count; ++gpu) {
    const Budget* budget = find_gpu(budgets, gpu);
    if (budget == nullptr) return missing_gpu(request, budgets, gpu);
    // Nothing is left over long before the sum could overflow.
    whole = std::max(whole, std::int64_t{-1}) - std::min(budget->bytes.value, INT64_MAX / 2);
    fraction -= budget->fraction;
  }
  Budget* first = find_gpu(budgets, 0);
  if (first == nullptr) return missing_gpu(request, budgets, 0);
  whole += static_cast<std::int64_t>(std::floor(fraction));
  fraction -= std::floor(fraction);
  limit(*first, whole < 0 ? Budget{.place = first->place} : Budget{first->place, {whole}, fraction});
  return {};
}

// The list in the originals' order: GPUs by number, cpu, disk.
Result<std::vector<Budget>> in_order(std::vector<Budget> budgets) {
  std::sort(budgets.begin(), budgets.end(), [](const Budget& a, const Budget& b) { return a.place < b.place; });
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    const std::string place = to_string(budgets[i].place);
    if (budgets[i].bytes.value < 0)
      problems.push_back(
          {"", fmt::format("the budget of {} is {} bytes", place, budgets[i].bytes.value), "give 0 or more"});
    if (i > 0 && budgets[i].place == budgets[i - 1].place)
      problems.push_back({"", fmt::format("{} has two budgets", place), "give it one"});
  }
  if (!problems.empty()) return to_error(problems);
  return budgets;
}

}  // namespace

std::vector<Budget> budgets_of_packed(std::vector<Budget> budgets) {
  for (Budget& budget : budgets) take_ninety_percent(budget);
  return budgets;
}

Result<std::vector<Budget>> sequential_budgets(const CompatRequest& request, std::vector<Budget> budgets) {
  auto ordered = in_order(std::move(budgets));
  if (!ordered || request.limits_given || request.rules != CompatRules::transformers) return ordered;
  for (Budget& budget : *ordered)
    if (budget.place == on_cpu()) take_ninety_percent(budget);
  return ordered;
}

Result<std::vector<Budget>> balanced_budgets(const ModelShape& shape, const CompatRequest& request,
                                             std::vector<Budget> given, bool low_zero) {
  auto ordered = sequential_budgets(request, std::move(given));
  if (!ordered) return ordered;
  std::vector<Budget>& budgets = *ordered;
  if (request.rules == CompatRules::accelerate && !budgets.empty() && budgets.back().place == on_disk())
    return fails_in_original(request.rules, "RuntimeError", "balancing asks torch for a device called \"disk\"",
                             "leave disk out of the budgets: it is there without one, and unlimited");
  std::vector<Budget*> gpus;  // those that may hold something
  for (Budget& budget : budgets)
    if (is_gpu(budget) && !is_empty(budget)) gpus.push_back(&budget);
  if (gpus.empty()) return ordered;
  if (gpus.size() == 1) {
    low_zero = false;
    if (!request.limits_given) take_ninety_percent(budgets.front());
  }
  const auto sizes = compat_sizes(shape, request);
  if (!sizes) return sizes.error();
  const auto extra = slack(shape, request, *sizes);
  if (!extra) return extra.error();

  const auto sharers = static_cast<std::int64_t>(low_zero ? gpus.size() - 1 : gpus.size());
  const Budget share{.bytes = {sizes->total() / 8 / sharers + *extra}};
  const std::size_t count = gpus.size();
  gpus.pop_back();  // the last one keeps its budget
  for (Budget* gpu : gpus)
    if (!low_zero || gpu->place.gpu != 0) limit(*gpu, share);
  if (!low_zero) return ordered;
  if (const auto lowered = lower_first(request, *sizes, budgets, count); !lowered) return lowered.error();
  return ordered;
}

}  // namespace muster::plan

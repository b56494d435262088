// What a token costs with weights in each form: weight_forms_bench [THREADS]. All matrices of some layers, one product
// after another, so that no cache holds them. One JSON line per shape, form and number of rows; the forms take turns, and
// the fastest round of each counts.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/linear.hpp"

namespace {

using namespace muster::kernels;

struct MatrixShape {
  std::int64_t outputs, inputs;
};

struct ModelShape {
  std::string_view name;
  std::int64_t layers;  // so many of the model's are measured
  std::vector<MatrixShape> matrices;
};

const std::vector<ModelShape> models = {
    {"SmolLM2-135M", 30, {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}}},
    {"Qwen2.5-7B", 1, {{4608, 3584}, {3584, 3584}, {37888, 3584}, {3584, 18944}}},
};

struct Form {
  std::string_view name;
  std::variant<Scalar, CodedForm> form;
};
const std::vector<Form> forms = {{"float32", Scalar::float32},
                                 {"bfloat16 kept", Scalar::bfloat16},
                                 {"int8", CodedForm{Code::int8}},
                                 {"nf4", CodedForm{Code::nf4, 64}}};

struct Aligned {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};
using Memory = std::unique_ptr<std::byte, Aligned>;

struct Matrix {
  Memory memory;
  std::size_t bytes = 0;
  std::variant<PackedMatrix, CodedMatrix> view;
};

template <class View, class Kind>
Matrix allocate(MatrixShape shape, const Kind& kind) {
  const std::size_t bytes = View::bytes_needed(shape.outputs, shape.inputs, kind);
  Memory memory(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
  const View view(memory.get(), shape.outputs, shape.inputs, kind);
  return {std::move(memory), bytes, view};
}

Matrix make_matrix(ThreadTeam& team, MatrixShape shape, const Form& form, const std::vector<float>& values) {
  if (const auto* coded = std::get_if<CodedForm>(&form.form)) {
    Matrix matrix = allocate<CodedMatrix>(shape, *coded);
    std::get<CodedMatrix>(matrix.view).code_rows(team, 0, shape.outputs, values.data(), Scalar::float32);
    return matrix;
  }
  Matrix matrix = allocate<PackedMatrix>(shape, std::get<Scalar>(form.form));
  std::get<PackedMatrix>(matrix.view).pack_rows(team, 0, shape.outputs, values.data(), Scalar::float32);
  return matrix;
}

struct Model {
  const Form* form;
  std::vector<Matrix> matrices;
  double best = std::numeric_limits<double>::infinity();

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Matrix& matrix : matrices) sum += matrix.bytes;
    return sum;
  }
};

// With one thread the processor's time is taken, which others on the machine disturb least.
double now(bool by_processor) {
  timespec time{};
  clock_gettime(by_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(ThreadTeam& team, const Model& model, std::int64_t rows, const std::vector<float>& input,
                  std::vector<float>& output) {
  const double start = now(team.size() == 1);
  for (const Matrix& matrix : model.matrices)
    std::visit(
        [&](const auto& view) { linear(team, view, input.data(), Scalar::float32, rows, nullptr, output.data()); },
        matrix.view);
  return now(team.size() == 1) - start;
}

void measure(ThreadTeam& team, const ModelShape& shape) {
  std::int64_t widest = 0, largest = 0;
  for (const MatrixShape& matrix : shape.matrices) {
    widest = std::max({widest, matrix.outputs, matrix.inputs});
    largest = std::max(largest, matrix.outputs * matrix.inputs);
  }
  std::mt19937 chance(1);
  std::vector<float> values(static_cast<std::size_t>(largest));
  for (float& value : values) value = static_cast<float>(chance() >> 8) * 0x1p-24F - 0.5F;
  std::vector<Model> made;
  for (const Form& form : forms) {
    Model model{&form, {}};
    for (std::int64_t layer = 0; layer < shape.layers; ++layer)
      for (const MatrixShape& matrix : shape.matrices) model.matrices.push_back(make_matrix(team, matrix, form, values));
    made.push_back(std::move(model));
  }
  for (const std::int64_t rows : {1, 2, 4, 8, 32, 256}) {
    const std::vector<float> input(values.begin(), values.begin() + rows * widest);
    std::vector<float> output(static_cast<std::size_t>(rows * widest));
    const int rounds = rows == 1 ? 20 : rows < 32 ? 8 : 3;
    for (Model& model : made) model.best = seconds_of(team, model, rows, input, output);
    for (int round = 0; round < rounds; ++round)
      for (Model& model : made) model.best = std::min(model.best, seconds_of(team, model, rows, input, output));
    for (const Model& model : made) {
      const auto bytes = static_cast<double>(model.bytes());
      fmt::print(
          "{{\"model\": \"{}\", \"form\": \"{}\", \"threads\": {}, \"rows\": {}, \"megabytes\": {:.0f}, "
          "\"milliseconds\": {:.3f}, \"gigabytes_a_second\": {:.1f}, \"times_float32\": {:.2f}}}\n",
          shape.name, model.form->name, team.size(), rows, bytes * 1e-6, model.best * 1e3, bytes * 1e-9 / model.best,
          made.front().best / model.best);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  ThreadTeam team(count > 1 ? std::atoi(arguments[1]) : 2);
  for (const ModelShape& shape : models) measure(team, shape);
  return 0;
}

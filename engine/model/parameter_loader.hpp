// Parameters out of a checkpoint, straight into the form their device wants: first everything is declared, then all of
// it is read by several threads, a slice of a tensor at a time.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "checkpoint/tensor_source.hpp"
#include "model/linear.hpp"
#include "model/parameter.hpp"
#include "tensor/device_ops.hpp"

namespace muster::model {

struct LoadProgress {
  std::int64_t done = 0;  // bytes of parameters
  std::int64_t total = 0;
};

// When declared parameters get their memory.
enum class Memory {
  now,
  later,  // when it is provided
};

class ParameterLoader {
 public:
  // All must outlive this.
  ParameterLoader(const checkpoint::TensorSource& source, tensor::DeviceOps& ops, at::ScalarType type,
                  Memory memory = Memory::now)
      : source_(source), ops_(ops), type_(type), memory_(memory) {}

  // What is declared from now on belongs to this unit.
  void begin_unit(UnitId unit) { unit_ = unit; }
  // A weight, under the number it has among the parameters.
  struct NumberedWeight {
    tensor::Weight weight;
    ParameterId id{};
  };
  // The result has its storage at once and its numbers after run().
  NumberedWeight weight(const std::string& name, std::int64_t outputs, std::int64_t inputs);
  // weights: tensors as a checkpoint has them, one below the other. biases: as many, or none. transposed: it has the
  // weights as [inputs, outputs].
  Linear linear(const std::vector<Parameter::Piece>& weights, const std::vector<Parameter::Piece>& biases,
                std::int64_t inputs, bool transposed);
  at::Tensor vector(const std::vector<Parameter::Piece>& pieces, ParameterId& id);
  // All that were declared, in order.
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // threads: readers. progress: called now and then, by one thread at a time.
  Result<void> run(int threads, const std::function<void(const LoadProgress&)>& progress);

 private:
  struct Piece {
    std::int64_t bytes = 0;
    std::function<Result<void>()> read;
  };
  // Rows first_row to first_row + rows - 1 of the weight are all of the tensor of that name.
  void add_rows(const std::string& name, const tensor::Weight& weight, std::int64_t first_row, std::int64_t rows);
  void add_transposed(const std::string& name, const tensor::Weight& weight, std::int64_t first_row, std::int64_t rows);
  void add_vector(const std::string& name, const at::Tensor& values);
  tensor::Weight new_weight(std::int64_t outputs, std::int64_t inputs);
  ParameterId number(Parameter parameter);

  const checkpoint::TensorSource& source_;
  tensor::DeviceOps& ops_;
  at::ScalarType type_;
  Memory memory_;
  std::deque<Piece> pieces_;
  UnitId unit_{};
  std::vector<Parameter> parameters_;
};

}  // namespace muster::model

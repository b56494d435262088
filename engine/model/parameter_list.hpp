// The parameters of a model, or of a part of it, as they are declared: which there are, in which unit, in which form.
// Their numbers come later (parameter_reading.hpp).
#pragma once

#include <string>

#include "model/linear.hpp"
#include "model/parameter.hpp"
#include "model/weight_forms.hpp"
#include "tensor/device_ops.hpp"

namespace muster::model {

// When declared parameters get their memory.
enum class Memory {
  now,
  later,  // when it is provided
};

class ParameterList {
 public:
  // ops and forms must outlive this.
  ParameterList(tensor::DeviceOps& ops, at::ScalarType type, const WeightForms& forms, Memory trained = Memory::now,
                Memory frozen = Memory::now)
      : ops_(ops), type_(type), forms_(forms), memory_of_trained_(trained), memory_of_frozen_(frozen) {}

  // What is declared from now on belongs to this unit.
  void begin_unit(UnitId unit) { unit_ = unit; }
  // A weight, under the number it has among the parameters.
  struct NumberedWeight {
    tensor::Weight weight;
    ParameterId id{};
  };
  NumberedWeight weight(const std::string& name, std::int64_t outputs, std::int64_t inputs);
  // weights: tensors as a checkpoint has them, one below the other. biases: as many, or none. transposed: it has the
  // weights as [inputs, outputs]. With the adapters that the forms have for them.
  Linear linear(const std::vector<Parameter::Piece>& weights, const std::vector<Parameter::Piece>& biases,
                std::int64_t inputs, bool transposed);
  at::Tensor vector(const std::vector<Parameter::Piece>& pieces, ParameterId& id);
  // All that were declared, in order.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // What whoever gives them numbers raises.
  const ChangeCount& changes() const { return changes_; }

 private:
  // The last parameter's weight or vector, with memory if it is time for that.
  tensor::Weight add_matrix(Parameter parameter, std::int64_t inputs, ParameterId& id);
  tensor::WeightForm form_of(const Parameter& parameter) const;
  bool is_trained(const std::vector<Parameter::Piece>& pieces) const;
  at::Tensor add_vector(Parameter parameter, at::ScalarType type, ParameterId& id);
  void add_adapters(Linear& linear, const std::vector<Parameter::Piece>& weights, std::int64_t inputs);
  Decomposition decomposition(const Parameter::Piece& magnitude);
  tensor::Weight adapter_weight(const std::string& name, std::int64_t outputs, std::int64_t inputs, ParameterId& id);
  bool has_memory(const Parameter& parameter) const {
    return (parameter.trained ? memory_of_trained_ : memory_of_frozen_) == Memory::now;
  }

  tensor::DeviceOps& ops_;
  at::ScalarType type_;
  const WeightForms& forms_;
  Memory memory_of_trained_, memory_of_frozen_;
  UnitId unit_{};
  std::vector<Parameter> parameters_;
  ChangeCount changes_ = std::make_shared<std::int64_t>(0);
};

}  // namespace muster::model

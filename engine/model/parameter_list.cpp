#include "model/parameter_list.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::model {
namespace {

std::int64_t rows_of(const std::vector<Parameter::Piece>& pieces) {
  std::int64_t rows = 0;
  for (const Parameter::Piece& piece : pieces) rows += piece.rows;
  return rows;
}

// What the table has for all of these; nothing where it has another value, or none, for one of them.
template <class Value>
std::optional<Value> common(const std::map<std::string, Value, std::less<>>& table,
                            const std::vector<Parameter::Piece>& pieces) {
  std::optional<Value> found;
  for (const Parameter::Piece& piece : pieces) {
    const auto entry = table.find(piece.name);
    if (entry == table.end() || (found && *found != entry->second)) return std::nullopt;
    found = entry->second;
  }
  return found;
}

}  // namespace

// What is trained is assigned to again and again, and has the type that is computed in.
tensor::WeightForm ParameterList::form_of(const Parameter& parameter) const {
  if (const auto packing = common(forms_.packed, parameter.pieces)) return {type_, *packing};
  if (const auto stored = common(forms_.narrow, parameter.pieces); stored && type_ == at::kFloat)
    if (const tensor::WeightForm narrow(type_, *stored); ops_.primitives->has_form(narrow)) return narrow;
  return type_;
}

tensor::Weight ParameterList::add_matrix(Parameter parameter, std::int64_t inputs, ParameterId& id) {
  parameter.unit = unit_;
  parameter.rows = rows_of(parameter.pieces);
  parameter.columns = inputs;
  parameter.weight = ops_.primitives->new_weight(parameter.rows, inputs, form_of(parameter));
  if (!has_memory(parameter)) tensor::TrainingOps::release(parameter.weight);
  id = ParameterId{parameters_.size()};
  return parameters_.emplace_back(std::move(parameter)).weight;
}

// Beside adapters, what they have as a whole.
bool ParameterList::is_trained(const std::vector<Parameter::Piece>& pieces) const {
  return forms_.adapters.empty() ||
         std::ranges::all_of(pieces, [&](const Parameter::Piece& piece) { return forms_.saved.contains(piece.name); });
}

at::Tensor ParameterList::vector(const std::vector<Parameter::Piece>& pieces, ParameterId& id) {
  Parameter parameter;
  parameter.pieces = pieces;
  parameter.trained = is_trained(pieces);
  return add_vector(std::move(parameter), type_, id);
}

at::Tensor ParameterList::add_vector(Parameter parameter, at::ScalarType type, ParameterId& id) {
  parameter.unit = unit_;
  parameter.rows = rows_of(parameter.pieces);
  parameter.vector = at::empty({has_memory(parameter) ? parameter.rows : 0},
                               at::TensorOptions().dtype(type).device(ops_.device));
  id = ParameterId{parameters_.size()};
  return parameters_.emplace_back(std::move(parameter)).vector;
}

ParameterList::NumberedWeight ParameterList::weight(const std::string& name, std::int64_t outputs,
                                                    std::int64_t inputs) {
  Parameter parameter;
  parameter.pieces = {{name, outputs}};
  parameter.trained = is_trained(parameter.pieces);
  NumberedWeight made;
  made.weight = add_matrix(std::move(parameter), inputs, made.id);
  return made;
}

Linear ParameterList::linear(const std::vector<Parameter::Piece>& weights,
                             const std::vector<Parameter::Piece>& biases, std::int64_t inputs, bool transposed) {
  Parameter matrix;
  matrix.pieces = weights;
  matrix.transposed = transposed;
  matrix.trained = is_trained(weights);
  Linear linear;
  linear.weight = add_matrix(std::move(matrix), inputs, linear.weight_id);
  if (!biases.empty()) linear.bias = vector(biases, linear.bias_id);
  add_adapters(linear, weights, inputs);
  return linear;
}

tensor::Weight ParameterList::adapter_weight(const std::string& name, std::int64_t outputs, std::int64_t inputs,
                                             ParameterId& id) {
  Parameter parameter;
  parameter.pieces = {{name, outputs}};
  return add_matrix(std::move(parameter), inputs, id);
}

// In float32, whatever is computed in: a magnitude is divided by a length that it may hardly differ from.
Decomposition ParameterList::decomposition(const Parameter::Piece& magnitude) {
  Parameter parameter;
  parameter.pieces = {magnitude};
  Decomposition made;
  made.magnitude = add_vector(std::move(parameter), at::kFloat, made.magnitude_id);
  made.changes = changes_;
  return made;
}

void ParameterList::add_adapters(Linear& linear, const std::vector<Parameter::Piece>& weights, std::int64_t inputs) {
  std::int64_t first = 0;
  for (const auto& [name, rows] : weights) {
    for (std::size_t number = 0; number < forms_.adapters.size(); ++number) {
      const auto form = forms_.adapters[number].find(name);
      if (form == forms_.adapters[number].end()) continue;
      const auto [rank, scale, decomposed] = form->second;
      const AdapterNames names = adapter_names(name, number);
      Adapter adapter{.number = static_cast<std::int64_t>(number), .first_output = first, .scale = scale};
      adapter.down = adapter_weight(names.down, rank, inputs, adapter.down_id);
      adapter.up = adapter_weight(names.up, rows, rank, adapter.up_id);
      if (decomposed) adapter.decomposition = decomposition({names.magnitude, rows});
      linear.adapters.push_back(std::move(adapter));
    }
    first += rows;
  }
}

}  // namespace muster::model

#include "plan/adapters.hpp"

#include <map>

#include "spec/coded_states.hpp"
#include "spec/model/adapters/adapted_modules.hpp"
#include "spec/model/quantized/packed_modules.hpp"

namespace muster::plan {
namespace {

void raise(AdapterRanks& ranks, spec::TensorRole role, std::int64_t rank) {
  const auto to_at_least = [rank](std::int64_t& known) { known = std::max(known, rank); };
  using enum spec::TensorRole;
  if (role == query || role == query_key_value) to_at_least(ranks.query);
  if (role == key || role == query_key_value) to_at_least(ranks.key);
  if (role == value || role == query_key_value) to_at_least(ranks.value);
  if (role == attention_output) to_at_least(ranks.output);
  if (role == gate) to_at_least(ranks.gate);
  if (role == up) to_at_least(ranks.up);
  if (role == down) to_at_least(ranks.down);
}

void add_by_unit(Adapters& adapters, const spec::ModelShape& shape) {
  std::map<std::int64_t, std::int64_t> blocks;
  bool after_blocks = false;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const spec::TensorShape& tensor = shape.tensors[i];
    const std::int64_t beside = adapters.by_tensor[i];
    after_blocks = after_blocks || tensor.layer.has_value();
    adapters.parameters += beside;
    if (tensor.layer)
      blocks[*tensor.layer] += beside;
    else
      (after_blocks ? adapters.after : adapters.before) += beside;
  }
  for (const auto& [layer, parameters] : blocks) adapters.of_block = std::max(adapters.of_block, parameters);
}

void add_whole_modules(Adapters& adapters, const spec::ModelShape& shape, const std::vector<spec::TensorId>& saved) {
  adapters.whole.resize(shape.tensors.size());
  const auto consider = [&](std::int64_t elements) {
    adapters.block.whole_product = std::max(adapters.block.whole_product, elements);
  };
  for (const spec::TensorId id : saved) {
    const spec::TensorShape& tensor = shape.at(id);
    adapters.by_tensor[number(id)] += tensor.elements();
    adapters.whole[number(id)] = true;
    if (!spec::has_coded_states(tensor.elements(), spec::is_embedding(tensor.role)))
      adapters.uncoded += tensor.elements();
    const bool is_head = tensor.role == spec::TensorRole::head || tensor.role == spec::TensorRole::score;
    if (is_head) adapters.block.whole_head = true;
    if (tensor.layer && tensor.dimensions.rank == 2) consider(tensor.elements());
  }
  for (const std::vector<spec::TensorId>& group : spec::read_together(shape)) {
    std::int64_t joined = 0;
    for (const spec::TensorId id : group)
      if (adapters.whole[number(id)]) joined += shape.at(id).elements();
    consider(joined);
  }
}

}  // namespace

Result<Adapters> adapters_beside(const spec::ModelShape& shape, const spec::AdapterOptions& options) {
  const auto modules = spec::adapted_modules(shape, options);
  if (!modules) return modules.error();
  const auto saved = spec::saved_parameters(shape, options);
  if (!saved) return saved.error();
  Adapters adapters;
  adapters.block.dropout = options.dropout;
  adapters.by_tensor.resize(shape.tensors.size());
  for (const spec::AdaptedModule& module : *modules) {
    const std::int64_t magnitudes = options.weight_decomposed ? module.outputs : 0;
    adapters.by_tensor[number(module.weight)] += module.rank * (module.inputs + module.outputs) + magnitudes;
    for (const std::int64_t elements : {module.rank * module.inputs, module.rank * module.outputs, magnitudes})
      if (!spec::has_coded_states(elements, false)) adapters.uncoded += elements;
    raise(adapters.block.ranks, shape.at(module.weight).role, module.rank);
  }
  adapters.block.decomposed = options.weight_decomposed;
  add_whole_modules(adapters, shape, *saved);
  add_by_unit(adapters, shape);
  return adapters;
}

void add(Adapters& adapters, const Adapters& others) {
  AdapterRanks& ranks = adapters.block.ranks;
  const AdapterRanks& more = others.block.ranks;
  for (std::int64_t AdapterRanks::*const product :
       {&AdapterRanks::query, &AdapterRanks::key, &AdapterRanks::value, &AdapterRanks::output, &AdapterRanks::gate,
        &AdapterRanks::up, &AdapterRanks::down})
    ranks.*product = std::max(ranks.*product, more.*product);
  adapters.block.dropout = std::max(adapters.block.dropout, others.block.dropout);
  adapters.block.decomposed = adapters.block.decomposed || others.block.decomposed;
  adapters.parameters += others.parameters;
  adapters.uncoded += others.uncoded;
  adapters.of_block += others.of_block;
  adapters.before += others.before;
  adapters.after += others.after;
  for (std::size_t i = 0; i < adapters.by_tensor.size(); ++i) adapters.by_tensor[i] += others.by_tensor[i];
}

}  // namespace muster::plan

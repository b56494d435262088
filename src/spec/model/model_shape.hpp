// The tensors of a model and the tree of modules that holds them: what the planner sums and the engine builds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/element_type.hpp"
#include "spec/model/model_config.hpp"

namespace muster::spec {

// Up to four dimensions, the way torch counts them.
struct Dimensions {
  std::array<std::int64_t, 4> sizes{};
  std::size_t rank = 0;

  std::span<const std::int64_t> span() const { return {sizes.data(), rank}; }
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t size : span()) product *= size;
    return product;
  }
  bool operator==(const Dimensions&) const = default;
};

enum class TensorKind {
  parameter,
  buffer,   // saved with the checkpoint, not trained
  derived,  // a buffer that is computed, not saved (torch: persistent=False)
};

// What a tensor does in the model, whatever its family calls it.
enum class TensorRole {
  other,
  embedding,
  position_embedding,
  attention_norm,  // of what attention reads
  query,
  key,
  value,
  query_key_value,  // the three as one, queries first
  query_norm,
  key_norm,
  attention_output,
  feed_forward_norm,  // of what the feed-forward part reads
  gate,
  up,
  down,
  final_norm,
  head,
  score,  // ScoreHead
};
// Whether it scales what was normed.
bool is_norm(TensorRole role);

enum class TensorId : std::size_t {};
enum class ModuleId : std::size_t {};
constexpr std::size_t number(TensorId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t number(ModuleId id) { return static_cast<std::size_t>(id); }

struct TensorShape {
  std::string name;  // within its module: "weight"
  Dimensions dimensions;
  ElementType type = ElementType::float32;
  TensorKind kind = TensorKind::parameter;
  ModuleId owner{};
  std::optional<TensorId> same_as;  // tied: these bytes are that tensor's, which comes earlier
  TensorRole role = TensorRole::other;
  bool bias = false;                  // added to what the weight of the same role gives
  std::optional<std::int64_t> layer;  // absent: outside the layers

  std::int64_t elements() const { return dimensions.elements(); }
};

struct ModuleShape {
  std::string name;        // within its parent: "layers", "0", "self_attn"
  std::string class_name;  // transformers' class: "LlamaDecoderLayer"
  std::optional<ModuleId> parent;
  std::size_t end = 0;           // modules with ids in (own id, end) are below this one
  std::size_t first_tensor = 0;  // its own tensors: [first_tensor, first_tensor + tensor_count)
  std::size_t tensor_count = 0;
};

// Modules in the order of definition, parents before children (depth first); module 0 is the root, named "". Tensors
// are in the order of their modules.
class ModelShape {
 public:
  std::vector<ModuleShape> modules;
  std::vector<TensorShape> tensors;
  std::vector<std::string> whole_classes;  // classes that are never split over devices: transformers' _no_split_modules

  const ModuleShape& at(ModuleId id) const { return modules[number(id)]; }
  const TensorShape& at(TensorId id) const { return tensors[number(id)]; }
  std::span<const TensorShape> tensors_of(ModuleId id) const;
  std::vector<ModuleId> children(ModuleId id) const;
  bool is_whole(ModuleId id) const;  // its class is never split
  // A projection whose rows are its inputs, where other families have outputs: GPT-2's.
  bool is_transposed(TensorId id) const;

  // The weight or bias of a role; layer: absent for what lies outside the layers.
  std::optional<TensorId> find(TensorRole role, std::optional<std::int64_t> layer, bool bias = false) const;

  // "model.layers.0.self_attn"; "" for the root.
  std::string path(ModuleId id) const;
  std::string path(TensorId id) const;
  std::optional<ModuleId> find_module(std::string_view path) const;

  // Parameters, each tied one once: transformers' num_parameters().
  std::int64_t parameter_count() const;
};

// Adds modules and tensors in order, so that no caller counts indices by hand.
class ShapeBuilder {
 public:
  // Room for about this many, so that large trees are not moved while they grow.
  void reserve(std::size_t modules, std::size_t tensors);
  // The module stays open for children and tensors until close(). The first one is the root.
  ModuleId open(std::string name, std::string class_name);
  // As open(), and what it holds is the next layer's.
  ModuleId open_layer(std::string name, std::string class_name);
  void close();
  // To the open module; its tensors come before its children. Opening, adding and closing in another order is a
  // bug and throws.
  TensorId add(std::string name, std::initializer_list<std::int64_t> sizes, TensorKind kind = TensorKind::parameter,
               ElementType type = ElementType::float32);
  // Parameters with a role: "weight" and "bias".
  TensorId add_weight(TensorRole role, std::initializer_list<std::int64_t> sizes, ElementType type);
  TensorId add_bias(TensorRole role, std::int64_t size, ElementType type);
  // Shares the bytes of an earlier tensor, and so its sizes, kind and type.
  TensorId tie(std::string name, TensorId same_as, TensorRole role = TensorRole::other);
  ModelShape finish(std::vector<std::string> whole_classes);

 private:
  TensorId append(TensorShape tensor);

  ModelShape shape_;
  std::vector<ModuleId> open_;
  std::optional<ModuleId> open_layer_;
  std::int64_t layers_ = 0;
};

// The model of transformers for this configuration, a causal language model or a classifier: every module, parameter and
// buffer, in its order and under its name. dtype: type of the parameters; the rotary frequencies are float32 in any case.
// config must be free of contradictions().
ModelShape build_shape(const ModelConfig& config, ElementType dtype);

}  // namespace muster::spec

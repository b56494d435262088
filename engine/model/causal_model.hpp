// A causal language model, or the layers of it that one rank holds.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "model/block.hpp"
#include "model/norm.hpp"
#include "model/offload.hpp"
#include "model/parameter_list.hpp"
#include "model/parameter_reading.hpp"
#include "model/random_source.hpp"
#include "spec/model/model_shape.hpp"

namespace muster::model {

// Layers first to last - 1. The embedding goes with layer 0, the final norm and the head with the last one.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

struct LoadOptions {
  at::ScalarType type = at::kFloat;
  std::optional<LayerRange> layers;  // absent: all
  int threads = 1;
  std::function<void(const LoadProgress&)> progress;
  std::vector<OffloadedParts> offloaded = {};  // their sources must outlive the model
  WeightForms forms = {};                      // the source has the adapters' tensors, too
};

// What a backward pass computes again instead of having it kept.
enum class Recompute {
  nothing,
  cheap,   // norms, rotations and activations: no product
  blocks,  // everything within a block
};

// What a backward through the whole model needs of its forward.
struct ModelTape {
  Recompute recompute = Recompute::nothing;
  std::vector<Tape> blocks;
  at::Tensor last_hidden;  // before the final norm
};

// The units that final norm and head read.
struct HeadGuard {
  UnitGuard last;
  std::optional<UnitGuard> embedding;  // of a tied model
};

class CausalModel {
 public:
  // source must have the tensors of the configuration's shape. ops must outlive the model.
  static Result<CausalModel> load(const spec::ModelConfig& config, const checkpoint::TensorSource& source,
                                  tensor::DeviceOps& ops, const LoadOptions& options);

  const spec::ModelConfig& config() const { return config_; }
  at::ScalarType type() const { return type_; }
  LayerRange layers() const { return layers_; }
  // What comes after the layers.
  bool has_head() const { return layers_.last == config_.layers; }
  // Whether all its parameters stay on the device.
  bool is_resident() const { return is_resident_ && home_->is_whole(); }

  // What a cache of this many blocks for the held layers looks like.
  CacheShape cache_shape(std::int64_t blocks, std::int64_t block_tokens) const;

  // Each row of a batch has one of them, or none.
  std::int64_t adapters() const { return std::ssize(forms_->adapters); }

  // What all of the following calls of one pass need, on the device. cache: nullptr where every part begins at 0 and
  // nothing is kept.
  Pass prepare(const Batch& batch, KeyValueCache* cache);
  // The same over numbers that are, or will be, on the device; only after reserve_positions() returned true.
  Pass prepare(const PassNumbers& numbers, const at::Tensor& values, KeyValueCache* cache);
  // Whether rotary angles depend on a row's position alone. Then they are there up to this one, and stay where they
  // are.
  bool reserve_positions(std::int64_t positions);

  // [rows, hidden]: the tokens' embeddings; only on the rank with layer 0.
  at::Tensor embed(const Pass& pass);
  // Through the held layers. Without a tape hidden is changed.
  at::Tensor forward(const Pass& pass, at::Tensor hidden, ModelTape* tape = nullptr);
  // Final norm and head of any rows that forward returned: [rows, vocabulary]. Only during a stay at the head.
  at::Tensor logits(const at::Tensor& hidden);
  HeadGuard use_head() const { return use_head(*home_); }

  // ---- training, of a whole model ----

  // A model whose parameters have no numbers yet (assign() provides them), or not even memory (a strategy does). Frozen
  // ones have none until fill_frozen().
  static CausalModel unfilled(const spec::ModelConfig& config, tensor::DeviceOps& ops, at::ScalarType type,
                              Memory memory = Memory::now, const WeightForms& forms = {});
  // Where its parameters come from whenever they are read, in passes without gradients, too. It must outlive the model.
  void use_parameters(ParameterAccess& home) { home_ = &home; }
  ParameterAccess& home() const { return *home_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::size_t units() const { return blocks_.size() + 2; }
  // Memory of a unit's frozen parameters, as their device has them: what is handed from rank to rank, and kept in parts.
  std::vector<at::Tensor> frozen_storages(UnitId unit) const;
  // Gives the unit's frozen parameters memory, without numbers.
  void provide_frozen(UnitId unit);
  // Reads their numbers into it, by this many threads.
  Result<void> read_frozen(UnitId unit, const checkpoint::TensorSource& source, int threads);
  // Adds the lengths of the rows of the unit's weights, which are there, under the names of the magnitudes that begin
  // with them.
  void measure_rows(UnitId unit, RowLengths& lengths) const;
  // values: float32 or of the model's type, of the parameter's shape, on the device.
  void assign(ParameterId parameter, const at::Tensor& values);
  // As assign(), for a parameter without memory. Where weights are plain (tensor::TrainingOps::has_plain_weights) and
  // the values of the parameter's type, it shares their memory from then on.
  void adopt(ParameterId parameter, const at::Tensor& values);

  // Embedding and blocks: the hidden rows before the final norm. The residence's pass has begun.
  at::Tensor forward(const Pass& pass, ModelTape& tape, ParameterAccess& access);
  // What final norm and head read; they are called during such a stay.
  HeadGuard use_head(ParameterAccess& access) const;
  // The final norm of any of these rows, and the head's logits of the result.
  at::Tensor final_norm(const at::Tensor& hidden) const;
  at::Tensor head_logits(const at::Tensor& normed) const;
  // The numbers that a head for scores gives: [rows, outputs] (spec::ModelConfig::score).
  at::Tensor head_scores(const at::Tensor& normed) const;
  // sequence_rows: how many of normed's rows each sequence has. Returns the gradient of normed.
  at::Tensor head_backward(const at::Tensor& normed, const at::Tensor& logits_gradient,
                           std::span<const std::int64_t> sequence_rows, ParameterAccess& access) const;
  // The same from the gradient of the scores.
  at::Tensor score_backward(const at::Tensor& normed, const at::Tensor& scores_gradient,
                            std::span<const std::int64_t> sequence_rows, ParameterAccess& access) const;
  // The gradient of the hidden rows, from that of all normed ones; nothing more comes for the head.
  at::Tensor final_norm_backward(ModelTape& tape, const at::Tensor& normed_gradient, ParameterAccess& access) const;
  // Blocks and embedding. The tape is emptied.
  void backward(const Pass& pass, ModelTape& tape, at::Tensor gradient, ParameterAccess& access);

 private:
  CausalModel(const spec::ModelConfig& config, tensor::DeviceOps& ops, LayerRange layers, at::ScalarType type,
              const WeightForms& forms);
  void declare(ParameterList& list, const LoadOptions& options);
  void declare_blocks(ParameterList& list, const LoadOptions& options);
  bool has_learned_positions() const { return config_.position_kind == spec::PositionKind::learned; }
  spec::TensorRole head_role() const { return config_.tied ? spec::TensorRole::embedding : spec::TensorRole::head; }
  const tensor::Weight& head() const { return config_.tied ? embedding_ : head_; }
  UnitId block_unit(std::size_t block) const { return UnitId{1 + block}; }
  UnitId last_unit() const { return UnitId{1 + blocks_.size()}; }
  at::Tensor embedded(const Pass& pass);
  void embed_backward(const Pass& pass, const at::Tensor& gradient, ParameterAccess& access) const;

  spec::ModelConfig config_;
  std::shared_ptr<const spec::ModelShape> shape_;
  tensor::DeviceOps* ops_;
  LayerRange layers_;
  at::ScalarType type_;
  std::shared_ptr<const WeightForms> forms_;
  tensor::Weight embedding_;
  ParameterId embedding_id_{}, positions_id_{}, head_id_{};
  std::optional<tensor::Weight> positions_;  // where they are learned
  std::vector<std::unique_ptr<Block>> blocks_;
  Norm final_norm_;
  tensor::Weight head_;  // where tokens are predicted, and not by the embedding
  Linear score_;         // where there are scores
  bool is_resident_ = true;
  ParameterAccess* home_ = &resident();
  std::optional<ParameterVisits> embedding_visits_;  // it does not stay here
  std::optional<ParameterVisits> head_visits_;
  std::optional<RotaryTable> rotary_;
  std::vector<Parameter> parameters_;
  ChangeCount changes_;  // of their numbers
};

}  // namespace muster::model

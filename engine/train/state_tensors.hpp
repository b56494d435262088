// The training state under the names that checkpoints have for it: what is saved and resumed, whatever the layout.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/host_copy.hpp"
#include "optimizer/optimizer.hpp"
#include "parallel/strategy.hpp"
#include "train/piece_reader.hpp"

namespace muster::train {

class StateTensors {
 public:
  // Both must outlive this. prefix: what checkpoints put before the names of its tensors, where they have another
  // model's beside them.
  StateTensors(const parallel::Strategy& strategy, const optimizer::Optimizer& optimizer, std::string prefix = {});

  const std::string& prefix() const { return prefix_; }
  // All tensors of the model, in its order, whichever of them lie here; by the names that checkpoints have for them.
  const std::vector<checkpoint::LogicalTensor>& tensors() const { return tensors_; }
  // "parameter", and what the optimizer remembers, of some tensors or of all.
  const std::vector<std::string>& states() const { return states_; }
  parallel::ShardPlace place() const { return strategy_.place(); }
  // Where this rank's part lies.
  at::Device device() const { return strategy_.shards().front().master.device(); }

  // ---- parts of units ----

  std::size_t units() const { return strategy_.layouts().size(); }
  // This rank's part, flat.
  const at::Tensor& held(std::size_t unit, const std::string& state) const;
  // Elements of every part.
  std::int64_t part_elements(std::size_t unit) const;
  // What a part is; offsets within it.
  std::vector<parallel::FlatPiece> pieces(std::size_t unit, int part) const;
  // The numbers that a state has of a part: offsets in what is held of it, first and count in numbers.
  std::vector<parallel::FlatPiece> numbers(std::size_t unit, int part, const std::string& state) const;
  // The length of what the part's rank holds of a state.
  std::int64_t held_count(std::size_t unit, int part, const std::string& state) const;
  struct Held {
    std::size_t unit = 0;
    parallel::FlatPiece piece;
  };
  // What of a tensor lies in a part; absent: nothing.
  std::optional<Held> find(const std::string& tensor, int part) const;

  // ---- saving and reading ----

  // What a checkpoint's files call a part: unit by unit, state by state.
  std::vector<checkpoint::Piece> saved_pieces(int part) const;
  // What the copy has of a part of a unit, from what its rank holds of a state. Ordered from the device: the numbers
  // are there when it is done.
  void copy_unit(std::size_t unit, int part, const std::string& state, const at::Tensor& held,
                 checkpoint::HostCopy& copy) const;
  // The same of all that this rank holds.
  void copy_to(checkpoint::HostCopy& copy) const;
  // Fills this rank's part.
  Result<void> read(const PieceReader& reader) const;
  // Fills a unit's part, which need not be this rank's.
  Result<void> read_unit(const PieceReader& reader, std::size_t unit, int part, const std::string& state,
                         const at::Tensor& flat) const;

 private:
  // For a state that is not "parameter".
  const optimizer::OptimizerState& remembered(const std::string& state) const;
  std::vector<std::string> states_of(std::size_t unit, const parallel::FlatPiece& whole) const;

  const parallel::Strategy& strategy_;
  const optimizer::Optimizer& optimizer_;
  std::string prefix_;
  std::vector<std::string> states_;
  std::vector<checkpoint::LogicalTensor> tensors_;
  std::map<std::string, std::size_t> units_;  // by tensor
};

}  // namespace muster::train

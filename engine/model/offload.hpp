// Parts of a model that do not stay on its device: their parameters are fetched for each pass, and released again.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/tensor_source.hpp"
#include "model/block.hpp"
#include "model/parameter_list.hpp"

namespace muster::model {

// Which parts, and where they are read from each time: a checkpoint, or what is kept of one in host memory.
struct OffloadedParts {
  std::vector<std::int64_t> layers;  // by their numbers in the model
  bool embedding = false;
  bool head = false;  // its norm is small, and stays
  const checkpoint::TensorSource* source = nullptr;
};

// How parameters are fetched: from a source, by this many threads.
class ParameterVisits {
 public:
  // source and ops must outlive this.
  ParameterVisits(const checkpoint::TensorSource& source, tensor::DeviceOps& ops, at::ScalarType type,
                  std::shared_ptr<const WeightForms> forms, int threads)
      : source_(&source), ops_(&ops), type_(type), forms_(std::move(forms)), threads_(threads) {}

  // What declare(list) gives, with its parameters read. Throws where the source cannot be read any more: nothing was
  // wrong with it when the model was loaded.
  template <class Declare>
  auto bring(const Declare& declare) const {
    ParameterList list(*ops_, type_, *forms_);
    auto declared = declare(list);
    read(list);
    return declared;
  }
  // [indices, width]: these rows of a matrix.
  at::Tensor rows(const std::string& name, const at::Tensor& indices, std::int64_t width) const;

 private:
  void read(const ParameterList& list) const;

  const checkpoint::TensorSource* source_;
  tensor::DeviceOps* ops_;
  at::ScalarType type_;
  std::shared_ptr<const WeightForms> forms_;
  int threads_;
};

// declare makes the block of the parameters that it declares.
std::unique_ptr<Block> make_offloaded_block(std::function<std::unique_ptr<Block>(ParameterList&)> declare,
                                            ParameterVisits visits);

}  // namespace muster::model

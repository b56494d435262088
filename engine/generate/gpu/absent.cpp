#include "generate/decode_graphs.hpp"

namespace muster::generate {

std::unique_ptr<DecodeGraphs> make_decode_graphs(model::CausalModel&, const tensor::DeviceOps&, model::KeyValueCache&,
                                                 std::int64_t) {
  return nullptr;
}

}  // namespace muster::generate

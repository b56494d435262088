#include "model/parameter_access.hpp"

namespace muster::model {
namespace {

class AlwaysThere final : public ParameterAccess {
 public:
  void enter(UnitId) override {}
  void leave(UnitId) override {}
  tensor::GradientSum gradient(ParameterId) override { return {}; }
  void gradients_complete(UnitId) override {}
};

}  // namespace

ParameterAccess& resident() {
  static AlwaysThere one;
  return one;
}

std::vector<UnitId> visits(PassKind kind, std::size_t units, bool tied) {
  const std::size_t last = units - 1;
  std::vector<UnitId> order;
  for (std::size_t unit = 0; unit <= last; ++unit) order.push_back(UnitId{unit});
  if (tied) order.push_back(UnitId{0});
  if (kind != PassKind::measure)
    for (std::size_t block = last; --block > 0;) order.push_back(UnitId{block});
  return order;
}

}  // namespace muster::model

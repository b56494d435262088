// Every unit of a dataset once, forward alone, over all ranks.
#pragma once

#include <functional>
#include <string>

#include "communicate/communicator.hpp"
#include "data/dataset.hpp"
#include "data/micro_batch.hpp"
#include "model/causal_model.hpp"
#include "wire/event.hpp"

namespace muster::train {

// Which samples of a unit.
enum class UnitPart { whole, first, second };

struct DatasetVisit {
  const data::Dataset& dataset;
  std::int64_t together = 1;     // samples of a unit
  std::int64_t micro_batch = 1;  // units of a pass
  std::string what;              // reported with its progress
  UnitPart part = UnitPart::whole;

  std::int64_t units() const { return dataset.size() / together; }
};

// What a visit has around it; all must outlive it.
struct VisitContext {
  model::CausalModel& model;
  at::Device device;
  communicate::Communicator& ranks;
  std::function<void(const wire::EventBody&)> tell;
};

// Each rank takes its share, in as many passes as every other rank has; measure is called within a pass, for batches with
// rows that are trained on. False: memory ran out on this rank; what other ranks wait for is done. All ranks call it.
bool visit_dataset(const DatasetVisit& visit, const VisitContext& context,
                   const std::function<void(const data::MicroBatch&)>& measure);

}  // namespace muster::train

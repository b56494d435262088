// The numbers of the memory model that no formula gives: measured, in one table, each with its source.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster::plan {

struct MemoryConstants {
  std::int64_t cuda_context = 552402944;
  std::int64_t cublas_workspace = 34603008;
  std::int64_t nccl_communicator = 721420288;
  double slack = 0.20;
  double slack_checkpointing = 0.50;
  double slack_expandable = 0.09;
};

// One row of the table: docs/memory-model.md is checked against it.
struct ConstantRow {
  std::string_view name;     // "cuda_context"
  std::string_view unit;     // "bytes", "share of the peak"
  std::string_view meaning;  // one sentence
  std::string_view source;   // where the value was measured
  double (*get)(const MemoryConstants&);
  void (*set)(MemoryConstants&, double);
};
std::span<const ConstantRow> constant_table();

// A YAML or JSON table of names and values that a measured run wrote; unknown names, negative values and values beyond
// reason are all reported.
Result<MemoryConstants> read_constants(std::string_view text, std::string_view source);

}  // namespace muster::plan

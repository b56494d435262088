#include "plan/memory_constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "base/document.hpp"
#include "base/text.hpp"

namespace muster::plan {
namespace {

template <auto Member>
constexpr ConstantRow row(std::string_view name, std::string_view unit, std::string_view meaning,
                          std::string_view source) {
  return {name,
          unit,
          meaning,
          source,
          [](const MemoryConstants& constants) { return static_cast<double>(constants.*Member); },
          [](MemoryConstants& constants, double value) {
            constants.*Member = static_cast<std::remove_reference_t<decltype(constants.*Member)>>(value);
          }};
}

constexpr std::array table{
    row<&MemoryConstants::cuda_context>("cuda_context", "bytes",
                                        "what a process takes on a GPU before its first tensor",
                                        "H200, driver 580, torch 2.11: used memory after torch.cuda.init"),
    row<&MemoryConstants::cublas_workspace>("cublas_workspace", "bytes",
                                            "workspace of the matrix library per thread that computes: one for "
                                            "inference, two for training",
                                            "H200, torch 2.11: bytes that stay allocated after the model is gone"),
    row<&MemoryConstants::nccl_communicator>("nccl_communicator", "bytes", "buffers of one NCCL communicator",
                                             "688 MiB reported for 3 and 4 ranks (NVIDIA/nccl issue 964)"),
    row<&MemoryConstants::slack>(
        "slack", "share of what lies above the states",
        "memory the caching allocator needs beyond the peak of allocated bytes",
        "H200, torch 2.11: the smallest limit under which measured steps still run, 2 to 18 %"),
    row<&MemoryConstants::slack_checkpointing>("slack_checkpointing", "share of what lies above the states",
                                               "the same where activations are computed again",
                                               "H200, torch 2.11: 12 to 52 %"),
    row<&MemoryConstants::slack_expandable>("slack_expandable", "share of what lies above the states",
                                            "the same with expandable_segments:True", "H200, torch 2.11: 0.5 to 8.5 %"),
};

}  // namespace

std::span<const ConstantRow> constant_table() { return table; }

Result<MemoryConstants> read_constants(std::string_view text, std::string_view source) {
  auto document = parse_document(text, source);
  if (!document) return document.error();
  if (document->kind != Node::Kind::table)
    return Error{Error::Kind::bad_input,
                 fmt::format("{} holds {}, not a table of constants", source, describe(*document)),
                 "write lines such as cuda_context: 552402944"};
  std::vector<std::string> known;
  for (const ConstantRow& constant : table) known.emplace_back(constant.name);
  MemoryConstants constants;
  std::vector<Problem> problems;
  for (const Node::Entry& entry : document->entries) {
    const std::string where = location(source, entry.position);
    const auto found = std::ranges::find(table, entry.key, &ConstantRow::name);
    if (found == table.end()) {
      const auto near = nearest(entry.key, known);
      problems.push_back({where, fmt::format("\"{}\" is not a constant of the memory model", entry.key),
                          near ? fmt::format("did you mean {}?", *near) : "known: " + join(known, ", ")});
      continue;
    }
    const auto value = entry.value.kind == Node::Kind::scalar ? parse_number<double>(entry.value.text) : std::nullopt;
    const double most = found->unit == "bytes" ? 1e12 : 10;
    if (!value || !(*value >= 0) || *value > most)
      problems.push_back({where, fmt::format("{} is {}", entry.key, describe(entry.value)),
                          fmt::format("a number of {}, from 0 to {:g}", found->unit, most)});
    else
      found->set(constants, *value);
  }
  if (!problems.empty()) return to_error(problems);
  return constants;
}

}  // namespace muster::plan

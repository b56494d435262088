// What an output file was made from, kept beside it, so that a run that was cut short can be gone on with.
//
//   out.jsonl       rows, in the order of the prompts
//   out.jsonl.job   the record: {"version", "task": {…}, "files": {…}, "tokenizer_files", "seed", "device",
//                   "prompts": {"count", "sha256"}}
//
// Note [Order of writing]
// The output is emptied first, then the record replaces an older one, then rows are added. Killed in between, an empty
// output stands beside the record of another run: an output without rows is begun anew whatever its record says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"
#include "wire/assignment.hpp"

namespace muster::service {

// What of a file counts: rows of whole prompts, from the first one on.
struct AnsweredRows {
  std::int64_t prompts = 0;
  std::int64_t bytes = 0;  // that they take; what follows is cut off
};

// Everything the rows follow from; how they were computed, in which batches and by how many ranks, is no part of it.
// count, sha256: of the file of prompts.
nlohmann::ordered_json output_record(const wire::Assignment& assignment, bool gpu, std::int64_t count,
                                     const std::string& sha256);

std::filesystem::path record_path(const std::string& output);

// Where a run with this record goes on in that output; at the beginning, where there are no rows. An output of other
// settings or prompts, or of something else, is refused with what differs.
Result<AnsweredRows> find_answered(const std::string& output, const nlohmann::ordered_json& record);

}  // namespace muster::service

// What an output file was made from, kept next to it, so that an interrupted run can be resumed.
//
//   out.jsonl       rows, in the order of the prompts
//   out.jsonl.job   the record: {"version", "task": {…}, "files": {…}, "tokenizer_files", "seed", "device",
//                   "prompts": {"count", "sha256"}}
//
// Note [Order of writing]
// The output is emptied first, then the record replaces an older one, then rows are added. Killed in between, an empty
// output is next to the record of another run: an output without rows is started over whatever its record says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"
#include "wire/assignment.hpp"

namespace muster::job {

// The part of a file that counts: rows of whole prompts, from the first one on.
struct AnsweredRows {
  std::int64_t prompts = 0;
  std::int64_t bytes = 0;  // the bytes they take; what follows is cut off
};

// Everything the rows follow from; how they were computed, in which batches and by how many ranks, is not part of it.
// count, sha256: of the file of prompts.
nlohmann::ordered_json output_record(const wire::Assignment& assignment, bool gpu, std::int64_t count,
                                     const std::string& sha256);

std::filesystem::path record_path(const std::string& output);

// Where a run with this record continues in that output; at the beginning, if it has no rows. An output with other
// settings or prompts, or of something else, is refused with what differs.
Result<AnsweredRows> find_answered(const std::string& output, const nlohmann::ordered_json& record);

}  // namespace muster::job

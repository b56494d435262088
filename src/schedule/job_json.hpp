// Jobs, and their outcomes, as the JSON objects of a journal.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.hpp"
#include "schedule/job_table.hpp"

namespace muster::schedule {

class Fields;

// Only what differs from a plain job: a journal of many jobs stays small.
nlohmann::ordered_json to_json(const Job& job);
Job read_job(Fields& fields);

// What a Snapshot keeps about it.
nlohmann::ordered_json to_json(const JobRecord& record);
JobRecord read_record(Fields& fields);
// source names the object in messages.
Result<JobRecord> read_record(const nlohmann::json& object, std::string_view source);

std::string_view name(HowEnded how);
HowEnded read_how(Fields& fields, const char* key);

}  // namespace muster::schedule

// What users are told about their prepared data: what is trained on, what was cut and left out.
#pragma once

#include <string>
#include <vector>

#include "data/prepare_data.hpp"
#include "spec/run_spec.hpp"

namespace muster::job {

std::vector<std::string> data_notes(const data::PreparedData& data, const spec::RunSpec& spec);

}  // namespace muster::job

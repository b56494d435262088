// Shows whether a model is still the same: for each of its files the name, the size and a digest of samples.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace muster::job {

// {"config.json": "2c26b46b68ff…", …}. model: a folder, a file or a name that can be found; empty if it cannot.
nlohmann::ordered_json model_fingerprint(const std::string& model);

}  // namespace muster::job

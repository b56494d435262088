// A token file, read where it lies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "data/sample.hpp"

namespace muster::data {

enum class Verification {
  structure,   // everything but the tokens: nothing is ever read beyond its end
  everything,  // also the tokens
};

// Immutable, cheap to copy, safe to use from many threads. The file may be removed while it is open.
class Dataset {
 public:
  // Refused: what is not a token file, of another version, cut off or damaged. threads: for checksums, at least 1.
  static Result<Dataset> open(const std::filesystem::path& path, Verification verification, int threads = 1);

  std::int64_t size() const { return counts_.samples; }
  SampleView sample(std::int64_t index) const;
  std::int64_t length(std::int64_t index) const;   // tokens
  std::int64_t trained(std::int64_t index) const;  // tokens that are trained on
  std::int64_t reply_tokens(std::int64_t index) const;  // of these, what others say
  std::uint32_t label(std::int64_t index) const;
  const SampleCounts& counts() const { return counts_; }
  // For every sample.
  std::vector<std::uint32_t> lengths() const;

 private:
  struct Map;
  Dataset(std::shared_ptr<const Map> map, SampleCounts counts) : map_(std::move(map)), counts_(counts) {}

  std::shared_ptr<const Map> map_;
  SampleCounts counts_;
};

}  // namespace muster::data

// Where samples come from, in pieces that threads make in parallel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/arithmetic.hpp"
#include "data/row_files.hpp"
#include "data/row_form.hpp"
#include "data/sample_encoder.hpp"

namespace muster::data {

// What a piece gave. Lines are counted from the piece's first one.
struct MadePiece {
  EncodedSamples encoded;
  std::int64_t lines = 0;
  struct BadLine {
    std::int64_t line = 0;
    std::string what, remedy;
  };
  std::vector<BadLine> bad;  // at most most_bad_lines
};
constexpr std::size_t most_bad_lines = 10;

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual std::size_t pieces() const = 0;
  virtual std::uint64_t bytes_of(std::size_t piece) const = 0;
  // Safe in several threads.
  virtual Result<MadePiece> make(std::size_t piece, const SampleEncoder& encoder) const = 0;
  // Where a line is, for messages; pieces are asked for in order, with the lines of those before in the same file.
  virtual std::string name_of(std::size_t piece) const = 0;
};

std::unique_ptr<SampleSource> source_of_files(std::vector<RowFile> files, RowForm form);
// As preferences and judgements, a right answer is preferred to a wrong one (wrong_answer).
std::unique_ptr<SampleSource> source_of_questions(std::vector<Question> questions, RowForm form);

}  // namespace muster::data

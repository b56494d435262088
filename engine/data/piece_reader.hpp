// The text of one piece of a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "system/regular_file.hpp"
#include "data/row_files.hpp"
#include "data/training_row.hpp"

namespace muster::data {

// Lines that begin within the piece, whole, with the newline that the last one may lack. A last line that is longer
// than longest_row is cut somewhere beyond it.
Result<std::string> read_lines(const RegularFile& file, const FilePiece& piece);

struct DocumentPart {
  std::string text;
  bool begins = false;  // the document
  bool ends = false;
};
// Pieces meet after the first newline from the intended place on, or, where none is near, between two characters.
// One for which nothing is left is empty, and neither begins nor ends the document.
Result<DocumentPart> read_part(const RegularFile& file, const FilePiece& piece);

// Without newlines and carriage returns before them; views into text.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace muster::data

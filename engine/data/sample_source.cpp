#include "data/sample_source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "data/piece_reader.hpp"
#include "data/preference_row.hpp"
#include "data/training_row.hpp"

namespace muster::data {
namespace {

Result<void> encode_line(std::string_view line, RowForm form, const SampleEncoder& encoder, EncodedSamples& out) {
  if (form == RowForm::judgements) {
    const auto judged = parse_judgements(line);
    if (!judged) return judged.error();
    for (const JudgedRow& one : *judged)
      if (auto encoded = encoder.encode(one, out); !encoded) return encoded;
    return {};
  }
  if (form == RowForm::comparisons) {
    const auto comparison = parse_comparison(line);
    if (!comparison) return comparison.error();
    return encoder.encode(*comparison, out);
  }
  if (form != RowForm::examples) {
    const auto pair = parse_preference_row(line);
    if (!pair) return pair.error();
    return encoder.encode(*pair, form == RowForm::whole_preferences, out);
  }
  const auto row = parse_training_row(line);
  if (!row) return row.error();
  return encoder.encode(*row, out);
}

// A JSON file that is one list instead of lines of objects.
Error is_a_list() {
  return {Error::Kind::bad_input, "the file is one JSON list, and rows are read one a line",
          "python -c \"import json, sys; [print(json.dumps(row)) for row in json.load(sys.stdin)]\" < old.json > "
          "new.jsonl"};
}

class FileSource final : public SampleSource {
 public:
  FileSource(std::vector<RowFile> files, RowForm form)
      : files_(std::move(files)), pieces_(pieces_of(files_)), form_(form) {}

  std::size_t pieces() const override { return pieces_.size(); }
  std::uint64_t bytes_of(std::size_t piece) const override { return pieces_[piece].end - pieces_[piece].begin; }
  std::string name_of(std::size_t piece) const override { return files_[pieces_[piece].file].path.string(); }

  Result<MadePiece> make(std::size_t number, const SampleEncoder& encoder) const override {
    const FilePiece& piece = pieces_[number];
    const auto file = RegularFile::open(files_[piece.file].path);
    if (!file) return file.error();
    if (files_[piece.file].kind != RowFileKind::text) return make_rows(*file, piece, encoder);
    if (form_ == RowForm::examples) return make_text(*file, piece, encoder);
    return bad_input(fmt::format("{} is one text, and preferences are rows", files_[piece.file].path.string()),
                     R"(JSON lines of {"prompt", "chosen", "rejected"}, or of {"prompt", "completion", "label"} for kto)");
  }

 private:
  static Result<MadePiece> make_text(const RegularFile& file, const FilePiece& piece, const SampleEncoder& encoder) {
    const auto part = read_part(file, piece);
    if (!part) return part.error();
    MadePiece made;
    made.lines = std::ranges::count(part->text, '\n');
    if (part->text.empty()) return made;
    if (!is_utf8(part->text)) {
      made.bad.push_back({1, "the text is not UTF-8", "iconv -f ISO-8859-1 -t UTF-8 old.txt > new.txt"});
      return made;
    }
    if (auto encoded = encoder.encode(*part, made.encoded); !encoded)
      made.bad.push_back({1, encoded.error().what, encoded.error().remedy});
    return made;
  }

  Result<MadePiece> make_rows(const RegularFile& file, const FilePiece& piece, const SampleEncoder& encoder) const {
    const auto text = read_lines(file, piece);
    if (!text) return text.error();
    MadePiece made;
    for (const std::string_view line : lines_of(*text)) {
      ++made.lines;
      if (trim(line).empty()) continue;
      const bool list = piece.begin == 0 && made.lines == 1 && trim(line).starts_with('[');
      const Result<void> encoded = list ? Result<void>(is_a_list()) : encode_line(line, form_, encoder, made.encoded);
      if (!encoded) made.bad.push_back({made.lines, encoded.error().what, encoded.error().remedy});
      if (list || made.bad.size() == most_bad_lines) break;
    }
    return made;
  }

  std::vector<RowFile> files_;
  std::vector<FilePiece> pieces_;
  RowForm form_;
};

class QuestionSource final : public SampleSource {
 public:
  QuestionSource(std::vector<Question> questions, RowForm form) : questions_(std::move(questions)), form_(form) {}

  std::size_t pieces() const override { return (questions_.size() + piece_size - 1) / piece_size; }
  std::uint64_t bytes_of(std::size_t piece) const override { return end_of(piece) - piece * piece_size; }
  std::string name_of(std::size_t) const override { return "question"; }

  Result<MadePiece> make(std::size_t piece, const SampleEncoder& encoder) const override {
    MadePiece made;
    for (std::size_t i = piece * piece_size; i < end_of(piece); ++i) {
      ++made.lines;
      if (auto encoded = encode(questions_[i], encoder, made.encoded); !encoded) return encoded.error();
    }
    return made;
  }

 private:
  Result<void> encode(const Question& question, const SampleEncoder& encoder, EncodedSamples& out) const {
    if (form_ == RowForm::examples) return encoder.encode(PairRow{question.prompt, question.answer}, out);
    if (form_ == RowForm::judgements) {
      if (auto right = encoder.encode(JudgedText{question.prompt, question.answer, true}, out); !right) return right;
      return encoder.encode(JudgedText{question.prompt, wrong_answer(question), false}, out);
    }
    if (form_ == RowForm::comparisons)
      return encoder.encode(Comparison{question.prompt + question.answer, question.prompt + wrong_answer(question)}, out);
    const PreferredText row{question.prompt, question.answer, wrong_answer(question)};
    return encoder.encode(row, form_ == RowForm::whole_preferences, out);
  }

  static constexpr std::size_t piece_size = 4096;
  std::size_t end_of(std::size_t piece) const { return std::min((piece + 1) * piece_size, questions_.size()); }

  std::vector<Question> questions_;
  RowForm form_;
};

}  // namespace

std::unique_ptr<SampleSource> source_of_files(std::vector<RowFile> files, RowForm form) {
  return std::make_unique<FileSource>(std::move(files), form);
}

std::unique_ptr<SampleSource> source_of_questions(std::vector<Question> questions, RowForm form) {
  return std::make_unique<QuestionSource>(std::move(questions), form);
}

}  // namespace muster::data

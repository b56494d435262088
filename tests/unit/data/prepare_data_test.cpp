#include "data/prepare_data.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "system/files.hpp"
#include "byte_text.hpp"
#include "data/dataset.hpp"
#include "data/row_files.hpp"
#include "data/training_row.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using testing::contains;

struct Preparation : ::testing::Test {
  testing::ScratchFolder folder;
  fs::path cache = folder.path() / "cache";

  Result<PreparedData> prepare(const fs::path& data, std::int64_t length = 64, int threads = 2,
                               const chat::ModelText& text = byte_text()) {
    DataRequest request;
    request.path = data.string();
    request.sequence_length = length;
    return prepare_data(request, text, cache, threads);
  }
  // What all samples train on, as text.
  static std::string trained_text(const PreparedData& prepared) {
    const auto dataset = Dataset::open(prepared.training.path, Verification::everything).value();
    std::string text;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const SampleView sample = dataset.sample(i);
      for (const TokenSpan& span : sample.trained)
        for (std::uint32_t k = span.begin; k < span.end; ++k)
          text += sample.tokens[k] < 256 ? static_cast<char>(sample.tokens[k]) : '$';
    }
    return text;
  }
};

TEST_F(Preparation, ReadsEveryFileOfAFolderInTheOrderOfNames) {
  fs::create_directories(folder.path() / "rows/inner");
  fs::create_directories(folder.path() / "rows/.hidden");
  folder.write("rows/b.jsonl", "{\"prompt\": \"q\", \"completion\": \"B\"}\r\n\n{\"text\": \"C\"}");
  folder.write("rows/a.txt", "A");
  folder.write("rows/inner/d.json", "{\"prompt\": \"q\", \"completion\": \"D\"}\n");
  folder.write("rows/.hidden/e.xyz", "no");
  folder.write("rows/.note", "no");
  const auto prepared = prepare(folder.path() / "rows");
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  EXPECT_EQ(trained_text(*prepared), "A$B$C$D$");
  EXPECT_EQ(prepared->training.counts.samples, 4);
  EXPECT_EQ(prepared->training.counts.trained_tokens, 8);
}

TEST_F(Preparation, RefusesFilesOfOtherKindsAndTellsHowParquetIsConverted) {
  fs::create_directories(folder.path() / "rows");
  folder.write("rows/a.jsonl", "{\"text\": \"a\"}\n");
  folder.write("rows/b.parquet", "PAR1");
  folder.write("rows/c.csv", "x");
  const auto refused = prepare(folder.path() / "rows");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::bad_input);
  EXPECT_TRUE(contains(to_string(refused.error()), "b.parquet", "c.csv", "read_parquet", "to_json"));
  EXPECT_TRUE(contains(to_string(prepare(folder.path() / "none").error()), "there is no", "builtin:arithmetic"));
}

TEST_F(Preparation, NamesUpToTenBadRowsAtOnceByTheirLines) {
  std::string rows;
  for (int i = 1; i <= 60'000; ++i)  // several pieces
    rows +=
        i == 3 || i == 59'999 ? "{\"prompt\": \"x\"}\n" : "{\"text\": \"some words that fill the line up to here\"}\n";
  const auto refused = prepare(folder.write("rows.jsonl", rows));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::bad_input);
  EXPECT_TRUE(contains(to_string(refused.error()), "rows.jsonl:3:", "rows.jsonl:59999:", "completion"));
  std::string all_bad;
  for (int i = 0; i < 50; ++i) all_bad += "{]\n";
  const std::string text = to_string(prepare(folder.write("bad.jsonl", all_bad)).error());
  EXPECT_TRUE(contains(text, "bad.jsonl:1:", "bad.jsonl:10:"));
  EXPECT_FALSE(contains(text, "bad.jsonl:11:"));
  EXPECT_TRUE(contains(to_string(prepare(folder.write("list.json", "[\n{\"text\": \"a\"}\n]\n")).error()),
                       "one JSON list", "json.load"));
  EXPECT_TRUE(contains(to_string(prepare(folder.write("latin.txt", "Gr\xfc\xdf")).error()), "UTF-8"));
}

TEST_F(Preparation, RefusesARowThatIsTooLongByItsLineAndGoesOnBehindIt) {
  std::string rows = "{\"text\": \"short\"}\n{\"text\": \"" + std::string(longest_row + 5'000'000, 'a') + "\"}\n";
  rows += "{\"text\": \"short\"}\n{\"nothing\": 1}\n";
  const auto refused = prepare(folder.write("rows.jsonl", rows));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::bad_input);
  EXPECT_TRUE(contains(to_string(refused.error()), "rows.jsonl:2: the row is longer than 32 MiB", "rows.jsonl:4:"));
}

TEST_F(Preparation, IsDoneAgainWhereOtherAnswersAreToBeTrainedOn) {
  DataRequest request;
  request.path = folder.write("rows.jsonl", R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": "one"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "two"}]})");
  std::string line = read_file(request.path).value();
  std::erase(line, '\n');
  folder.write("rows.jsonl", line);
  const auto text = byte_text(
      "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  const auto all = prepare_data(request, text, cache, 1).value();
  EXPECT_EQ(trained_text(all), "onetwo");
  EXPECT_EQ(all.training.counts.conversations, 1);
  request.train_on = spec::TrainedAnswers::last;
  const auto last = prepare_data(request, text, cache, 1).value();
  EXPECT_FALSE(last.training.was_there);
  EXPECT_EQ(trained_text(last), "two");
  EXPECT_NE(last.training.path, all.training.path);
}

TEST_F(Preparation, GivesTheSameFileForAnyNumberOfThreads) {
  std::string rows;
  for (int i = 0; i < 90'000; ++i)
    rows += "{\"prompt\": \"" + std::to_string(i * 7) + "\", \"completion\": \"abcdefgh\"}\n";
  const auto path = folder.write("rows.jsonl", rows);
  ASSERT_GT(rows.size(), std::size_t{4} << 20);
  const auto one = prepare(path, 64, 1).value();
  const std::string first = read_file(one.training.path).value();
  fs::remove(one.training.path);
  const auto many = prepare(path, 64, 5).value();
  EXPECT_EQ(many.training.path, one.training.path);
  EXPECT_FALSE(many.training.was_there);
  EXPECT_TRUE(read_file(many.training.path).value() == first);
  EXPECT_EQ(many.training.counts.samples, 90'000);
}

TEST_F(Preparation, LosesNothingOfADocumentThatIsReadInPieces) {
  std::string text;
  for (int i = 0; text.size() < text_piece_bytes + 100'000; ++i) text += "line " + std::to_string(i) + " of größe\n";
  const auto prepared = prepare(folder.write("long.txt", text), 1000);
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  const auto dataset = Dataset::open(prepared->training.path, Verification::everything).value();
  // All tokens are there in their order: trained ones, and the first of the second piece.
  const std::string trained = trained_text(*prepared);
  EXPECT_EQ(trained.size(), text.size());  // with the end of the document, without the one token between the pieces
  EXPECT_TRUE(trained.starts_with("line 0 of größe\nline 1"));
  EXPECT_TRUE(trained.ends_with("größe\n$"));
  EXPECT_EQ(dataset.counts().dropped, 0);
}

TEST_F(Preparation, IsDoneOnceAndAgainWhereAnythingOfItChanges) {
  const auto path = folder.write("rows.jsonl", "{\"text\": \"one\"}\n");
  const auto first = prepare(path).value();
  EXPECT_FALSE(first.training.was_there);
  const auto again = prepare(path).value();
  EXPECT_TRUE(again.training.was_there);
  EXPECT_EQ(again.training.counts, first.training.counts);
  // The same contents under another name are the same data.
  fs::copy(path, folder.path() / "copy.jsonl");
  EXPECT_TRUE(prepare(folder.path() / "copy.jsonl").value().training.was_there);
  EXPECT_FALSE(prepare(path, 65).value().training.was_there);
  EXPECT_FALSE(prepare(path, 64, 2, byte_text("{{ messages }}")).value().training.was_there);
  folder.write("rows.jsonl", "{\"text\": \"two\"}\n");
  const auto changed = prepare(path).value();
  EXPECT_FALSE(changed.training.was_there);
  EXPECT_EQ(trained_text(changed), "two$");
}

TEST_F(Preparation, TrustsTheTimesOfFilesOnlyWhereTheyAreOldEnough) {
  const auto path = folder.write("rows.jsonl", "{\"text\": \"one\"}\n");
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(prepare(path));
  const auto digests = [&] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(cache / "data"))
      count += entry.path().extension() == ".digest" ? 1 : 0;
    return count;
  };
  EXPECT_EQ(digests(), 1);
  folder.write("rows.jsonl", "{\"text\": \"two\"}\n");
  ASSERT_TRUE(prepare(path));
  EXPECT_EQ(digests(), 1);
}

TEST_F(Preparation, MakesADamagedFileAnew) {
  const auto path = folder.write("rows.jsonl", "{\"text\": \"one\"}\n");
  const auto first = prepare(path).value();
  std::string bytes = read_file(first.training.path).value();
  bytes[20] ^= 1;
  std::ofstream(first.training.path, std::ios::binary) << bytes;
  std::ofstream(first.training.path.string() + ".part-1") << "left by a killed process";
  const auto again = prepare(path).value();
  EXPECT_FALSE(again.training.was_there);
  EXPECT_EQ(trained_text(again), "one$");
  EXPECT_FALSE(fs::exists(first.training.path.string() + ".part-1"));
}

TEST_F(Preparation, IsDoneByOneOfSeveralProcesses) {
  std::string rows;
  for (int i = 0; i < 30'000; ++i) rows += "{\"text\": \"" + std::to_string(i) + "\"}\n";
  const auto path = folder.write("rows.jsonl", rows);
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto prepared = prepare(path);
      ::_exit(!prepared ? 9 : prepared->training.was_there ? 1 : 0);
    }
    children.push_back(child);
  }
  int makers = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LT(WEXITSTATUS(status), 2);
    makers += WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  EXPECT_EQ(makers, 1);
}

TEST_F(Preparation, SaysWhereNothingIsLeftToTrainOn) {
  const auto path = folder.write("rows.jsonl", "{\"prompt\": \"long enough\", \"completion\": \"x\"}\n");
  const auto refused = prepare(path, 5);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(to_string(refused.error()), "nothing to train on: 1 sample had no token", "sequence_length"));
}

TEST_F(Preparation, OfBuiltInArithmeticHasTrainingAndHeldOutQuestions) {
  DataRequest request;
  request.path = request.evaluation.emplace(arithmetic_name);
  request.arithmetic.digits = 1;
  const auto prepared = prepare_data(request, byte_text(), cache, 2);
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  const auto questions = arithmetic_questions(request.arithmetic).value();
  EXPECT_EQ(prepared->training.counts.samples, static_cast<std::int64_t>(questions.training.size()));
  EXPECT_EQ(prepared->evaluation->counts.samples, static_cast<std::int64_t>(questions.held_out.size()));
  EXPECT_EQ(prepared->training.counts.token_limit, ByteTokens::end + 1);
  request.path = "builtin:poetry";
  EXPECT_TRUE(contains(to_string(prepare_data(request, byte_text(), cache, 2).error()), "builtin:arithmetic"));
}

}  // namespace
}  // namespace muster::data

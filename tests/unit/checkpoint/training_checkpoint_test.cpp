#include "checkpoint/training_checkpoint.hpp"

#include <fstream>

#include "system/files.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"
#include "training_run.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
using muster::testing::contains;
using testing::holds;
using testing::save;

class Checkpoints : public ::testing::Test {
 protected:
  fs::path step(std::int64_t number) const { return folder() / checkpoint_name(number); }
  fs::path folder() const { return scratch_.path() / "checkpoints"; }
  std::string why_refused(const fs::path& path) const {
    const auto opened = TrainingCheckpoint::open(path);
    if (!opened) return opened.error().what;
    const auto verified = opened->verify(2);
    return verified ? "was not refused" : verified.error().what;
  }

  muster::testing::ScratchFolder scratch_;
};

TEST_F(Checkpoints, SavedOnAnyNumberOfRanksAreReadInAnySlices) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const auto saved = save(folder(), ranks, ranks);
    ASSERT_TRUE(saved) << saved.error().what;
    const auto opened = TrainingCheckpoint::open(saved->path);
    ASSERT_TRUE(opened) << opened.error().what;
    for (const std::int64_t slice : {1, 3, 7, 64, 100'000}) EXPECT_TRUE(holds(*opened, ranks, slice)) << ranks;
  }
}

TEST_F(Checkpoints, SavedOnFourRanksAreResumedByTheSharesOfOneTwoAndThree) {
  ASSERT_TRUE(save(folder(), 12, 4));
  for (const int ranks : {1, 2, 3}) {
    const auto opened = TrainingCheckpoint::open(step(12));
    ASSERT_TRUE(opened);
    for (int rank = 0; rank < ranks; ++rank) {
      HostCopy wanted(share_of(opened->tensors(), ranks, rank)), read(share_of(opened->tensors(), ranks, rank));
      testing::fill(wanted, 12);
      for (std::size_t i = 0; i < read.pieces().size(); ++i) {
        const Piece& piece = read.pieces()[i];
        ASSERT_TRUE(opened->read(piece.tensor, piece.state, piece.first, read.bytes(i)));
      }
      EXPECT_EQ(std::memcmp(wanted.all().data(), read.all().data(), wanted.all().size_bytes()), 0);
    }
  }
}

TEST_F(Checkpoints, RefuseElementsAndStatesThatTheyDoNotHave) {
  ASSERT_TRUE(save(folder(), 1, 2));
  const auto opened = TrainingCheckpoint::open(step(1));
  ASSERT_TRUE(opened);
  std::vector<float> out(6);
  const auto read = [&](std::string_view tensor, std::string_view state, std::int64_t first) {
    const auto done = opened->read(tensor, state, first, out);
    return done ? std::string("was read") : done.error().what;
  };
  EXPECT_TRUE(contains(read("model.norm.weight", "parameter", 0), "has 5 elements, and 6 from 0 on"));
  EXPECT_TRUE(contains(read("frozen", "parameter", 4), "9 elements"));
  EXPECT_TRUE(contains(read("frozen", "parameter", -1), "9 elements"));
  EXPECT_TRUE(contains(read("frozen", "first_moment", 0), "no first_moment of frozen"));
  EXPECT_TRUE(contains(read("other", "parameter", 0), "no parameter of other"));
  EXPECT_EQ(read("frozen", "parameter", 3), "was read");
  EXPECT_EQ(opened->find("other"), nullptr);
}

TEST_F(Checkpoints, WithAByteChangedAnywhereAreRefused) {
  ASSERT_TRUE(save(folder(), 2, 3));
  std::size_t damaged = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(step(2))) {
    std::string bytes = *read_file(entry.path());
    for (std::size_t at = 0; at < bytes.size(); at += 1 + (at > 64) * 12, ++damaged) {
      std::fstream(entry.path(), std::ios::in | std::ios::out | std::ios::binary)
          .seekp(static_cast<std::streamoff>(at))
          .put(static_cast<char>(bytes[at] ^ (1 << at % 8)));
      EXPECT_NE(why_refused(step(2)), "was not refused") << entry.path() << " byte " << at;
      std::fstream(entry.path(), std::ios::in | std::ios::out | std::ios::binary)
          .seekp(static_cast<std::streamoff>(at))
          .put(bytes[at]);
    }
  }
  EXPECT_GT(damaged, 800u);
  EXPECT_EQ(why_refused(step(2)), "was not refused");
}

TEST_F(Checkpoints, CutOffAnywhereOrWithoutAFileAreRefused) {
  ASSERT_TRUE(save(folder(), 2, 3));
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(step(2))) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 4u);
  for (const fs::path& file : files) {
    const std::string bytes = *read_file(file);
    for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 60) {
      fs::resize_file(file, size);
      EXPECT_NE(why_refused(step(2)), "was not refused") << file << " of " << size << " bytes";
      ASSERT_TRUE(write_file_atomically(file, bytes));
    }
    ASSERT_TRUE(write_file_atomically(file, bytes + "x"));
    EXPECT_NE(why_refused(step(2)), "was not refused") << file << " longer";
    fs::remove(file);
    EXPECT_NE(why_refused(step(2)), "was not refused") << "without " << file;
    ASSERT_TRUE(write_file_atomically(file, bytes));
  }
  EXPECT_EQ(why_refused(step(2)), "was not refused");
}

TEST_F(Checkpoints, OfTwoSavesCannotBeMixed) {
  ASSERT_TRUE(save(folder(), 1, 2, {}, "a1"));
  ASSERT_TRUE(save(folder() / "other", 1, 2, {}, "a2"));
  ASSERT_TRUE(save(folder(), 2, 2, {}, "a1"));
  for (const fs::path& other : {folder() / "other" / "step-1", step(2)}) {
    fs::copy_file(other / "rank-1-of-2.state", step(1) / "rank-1-of-2.state", fs::copy_options::overwrite_existing);
    EXPECT_TRUE(contains(why_refused(step(1)), "rank-1-of-2.state", "another"));
  }
}

TEST_F(Checkpoints, AreTakenNewestFirstAndTheReasonIsToldWhereOneIsPassedOver) {
  for (const std::int64_t number : {9, 10, 100}) ASSERT_TRUE(save(folder(), number, 2));
  EXPECT_EQ(newest_good(folder(), 2).checkpoint->state().step, 100);
  fs::remove(step(100) / "manifest.json");  // then it is none
  auto found = newest_good(folder(), 2);
  EXPECT_EQ(found.checkpoint->state().step, 10);
  EXPECT_TRUE(found.passed_over.empty());
  fs::resize_file(step(10) / "rank-1-of-2.state", 2000);
  found = newest_good(folder(), 2);
  ASSERT_TRUE(found.checkpoint);
  EXPECT_TRUE(holds(*found.checkpoint, 9));
  ASSERT_EQ(found.passed_over.size(), 1u);
  EXPECT_EQ(found.passed_over[0].path, step(10));
  EXPECT_TRUE(contains(found.passed_over[0].reason.what, "rank-1-of-2.state"));
  std::fstream(step(9) / "rank-0-of-2.state", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(-1, std::ios::end)
      .put('x');
  found = newest_good(folder(), 2);
  EXPECT_FALSE(found.checkpoint);
  ASSERT_EQ(found.passed_over.size(), 2u);
  EXPECT_TRUE(contains(found.passed_over[1].reason.what, "rank-0-of-2.state", "elements", "damaged"));
}

TEST_F(Checkpoints, GivenAnotherStepsNameArePassedOver) {
  ASSERT_TRUE(save(folder(), 5, 1));
  fs::rename(step(5), step(7));
  const auto found = newest_good(folder(), 1);
  EXPECT_FALSE(found.checkpoint);
  EXPECT_TRUE(contains(found.passed_over.at(0).reason.what, "step-7", "of step 5"));
}

TEST_F(Checkpoints, OfAMissingFolderAreNone) {
  EXPECT_TRUE(find_checkpoints(folder()).empty());
  EXPECT_FALSE(newest_good(folder(), 1).checkpoint);
  EXPECT_TRUE(contains(why_refused(folder()), "no training checkpoint"));
}

TEST_F(Checkpoints, OfLaterStepsAreSetAsideForARunThatComesToThemAnew) {
  for (const std::int64_t number : {1, 2, 3}) ASSERT_TRUE(save(folder(), number, 1));
  ASSERT_EQ(set_aside_newer(folder(), 2)->size(), 1u);
  EXPECT_EQ(newest_good(folder(), 1).checkpoint->state().step, 2);
  ASSERT_TRUE(save(folder(), 3, 1));
  EXPECT_EQ(set_aside_newer(folder(), 1)->size(), 2u);
  EXPECT_EQ(find_checkpoints(folder()).size(), 1u);
  EXPECT_TRUE(fs::exists(folder() / "step-3.set-aside") && fs::exists(folder() / "step-3.set-aside-2"));
  EXPECT_TRUE(set_aside_newer(folder(), 1)->empty());
}

}  // namespace
}  // namespace muster::checkpoint

#include "train/state_transfer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/slice_bounds.hpp"
#include "cut_state.hpp"
#include "train/checkpoints.hpp"

namespace muster::train {
namespace {

namespace fs = std::filesystem;
using testing::CutState;
using testing::Moments;
using testing::number_at;
using testing::on_ranks;

// For ranks that have no files.
Result<void> must_not_read(const parallel::FlatPiece& piece, const std::string&, const at::Tensor&) {
  return Error{Error::Kind::failed, "a rank without files read " + piece.tensor, ""};
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("state_transfer_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

wire::TrainTask task_in(const fs::path& folder, int saving_ranks) {
  wire::TrainTask task;
  task.run_folder = folder.string();
  task.attempt = "a1";
  task.saving_ranks = saving_ranks;
  return task;
}

checkpoint::TrainingState step(std::int64_t number) {
  checkpoint::TrainingState facts;
  facts.step = number;
  facts.optimizer = "adamw";
  return facts;
}

fs::path save(const fs::path& folder, int parts, int copies, int saving_ranks, Moments moments = Moments::plain) {
  const auto work = [&](communicate::Communicator& ranks, CutState& state) {
    state.fill();
    const StateTransfer transfer(ranks, at::kCPU, saving_ranks, state.tensors);
    Checkpoints checkpoints(task_in(folder, saving_ranks), {ranks.rank(), {}}, {{state.tensors, transfer}});
    // What was saved before is no part of the next save.
    EXPECT_TRUE(checkpoints.save(step(1)));
    EXPECT_TRUE(checkpoints.save(step(1)));
    EXPECT_TRUE(checkpoints.completed(true));
    EXPECT_TRUE(checkpoints.save(step(2)));
    // The copy is made: what changes from here on is not saved.
    state.each([](float& held, const std::string&, const std::string&, std::int64_t) { held = 0; });
    const auto saved = checkpoints.completed(true);
    ASSERT_TRUE(saved) << saved.error().what;
  };
  on_ranks(parts, copies, work, moments);
  return folder / "checkpoints" / "step-2";
}

void expect_readable(const fs::path& path, int parts, int copies, int reading_ranks,
                     Moments moments = Moments::plain) {
  const auto work = [&](communicate::Communicator& ranks, CutState& state) {
    const StateTransfer transfer(ranks, at::kCPU, reading_ranks, state.tensors);
    const auto opened = checkpoint::TrainingCheckpoint::open(path);
    ASSERT_TRUE(opened) << opened.error().what;
    const auto filled = transfer.fill(transfer.has_files() ? reader_of(*opened) : must_not_read);
    ASSERT_TRUE(filled) << filled.error().what;
    EXPECT_TRUE(state.is_filled());
  };
  on_ranks(parts, copies, work, moments);
}

class FromTo : public ::testing::TestWithParam<std::tuple<int, Moments>> {};

TEST_P(FromTo, WhatSoManyPartsSavedIsReadByAnyOtherNumberOfPartsBitForBit) {
  const auto [parts, moments] = GetParam();
  for (int saving = 1; saving <= parts; ++saving) {
    const Folder folder;
    const fs::path path = save(folder.path(), parts, 1, saving, moments);
    const auto opened = checkpoint::TrainingCheckpoint::open(path);
    ASSERT_TRUE(opened) << opened.error().what;
    ASSERT_TRUE(opened->verify(1));
    for (int readers = 1; readers <= 4; ++readers)
      for (int with_files = 1; with_files <= readers; ++with_files) {
        SCOPED_TRACE(::testing::Message()
                     << parts << " parts by " << saving << " ranks, " << readers << " parts by " << with_files);
        expect_readable(path, readers, 1, with_files, moments);
      }
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, FromTo,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(Moments::plain, Moments::coded)));

TEST(StateTransfer, SavesTheFirstOfSeveralCopiesAndFillsAllOfThem) {
  for (const auto& [parts, moments] : {std::pair(1, Moments::plain), std::pair(2, Moments::plain),
                                       std::pair(3, Moments::plain), std::pair(2, Moments::coded)})
    for (const int with_files : {1, 2, parts, parts + 1, 2 * parts}) {
      SCOPED_TRACE(::testing::Message() << "2 copies of " << parts << " parts, " << with_files << " ranks with files");
      const Folder folder;
      const fs::path path = save(folder.path(), parts, 2, std::min(with_files, 2 * parts), moments);
      expect_readable(path, parts, 2, std::min(with_files, 2 * parts), moments);
      expect_readable(path, 3, 1, 2, moments);
    }
}

TEST(StateTransfer, LetsAsManyRanksSaveAsHaveAFolderAndAPart) {
  on_ranks(3, 2, [](communicate::Communicator& ranks, CutState& state) {
    for (const int with_files : {1, 2, 3, 6}) {
      const StateTransfer transfer(ranks, at::kCPU, with_files, state.tensors);
      EXPECT_EQ(transfer.savers(), std::min(3, with_files));
      EXPECT_EQ(transfer.share().has_value(), ranks.rank() < std::min(3, with_files));
    }
  });
}

// Numbers by their names, of slices alone; how many were read.
class NumberedSource final : public checkpoint::TensorSource {
 public:
  explicit NumberedSource(const StateTensors& state) {
    for (const checkpoint::LogicalTensor& tensor : state.tensors())
      entries_.push_back({tensor.name, model_dimensions(tensor), "float32", spec::ElementType::float32, 0});
  }
  std::span<const checkpoint::TensorEntry> tensors() const override { return entries_; }
  const checkpoint::TensorEntry* find(std::string_view name) const override {
    return &*std::ranges::find(entries_, name, &checkpoint::TensorEntry::name);
  }
  Result<void> read(std::string_view name, const checkpoint::TensorSlice& slice, spec::ElementType as,
                    std::span<std::byte> out) const override {
    const auto bounds = checkpoint::check_slice(*find(name), slice, as, out.size());
    if (!bounds) return bounds.error();
    auto* number = reinterpret_cast<float*>(out.data());
    for (std::int64_t row = 0; row < bounds->rows; ++row)
      for (std::int64_t column = 0; column < bounds->columns; ++column, ++read_)
        *number++ = number_at(name, checkpoint::parameter_state,
                              (bounds->first_row + row) * bounds->tensor_columns + bounds->first_column + column);
    return {};
  }
  std::uint64_t bytes_read() const override { return read_ * sizeof(float); }

 private:
  std::vector<checkpoint::TensorEntry> entries_;
  mutable std::uint64_t read_ = 0;
};

TEST(StateTransfer, ReadsOfAModelsFilesOnlyTheRowsThatAPartHas) {
  for (const int parts : {1, 2, 3, 4})
    on_ranks(parts, 1, [&](communicate::Communicator& ranks, CutState& state) {
      const NumberedSource source(state.tensors);
      const StateTransfer transfer(ranks, at::kCPU, parts, state.tensors);
      ASSERT_TRUE(transfer.fill(reader_of(source)));
      EXPECT_TRUE(state.is_filled(true));
      std::uint64_t most = 0;  // two rows of each tensor more than it holds
      for (const parallel::Shard& shard : state.strategy.shards())
        for (const parallel::FlatPiece& piece : shard.pieces)
          most +=
              static_cast<std::uint64_t>(piece.count + (piece.transposed ? 0 : 2 * (piece.columns.value_or(1) - 1)));
      EXPECT_LE(source.bytes_read() / sizeof(float), most);
    });
}

TEST(StateTransfer, ReadsAModelsFilesForRanksThatHaveNone) {
  for (const int parts : {2, 3, 4})
    for (const int copies : {1, 2})
      for (int with_files = 1; with_files < parts; ++with_files)
        on_ranks(parts, copies, [&](communicate::Communicator& ranks, CutState& state) {
          const NumberedSource source(state.tensors);
          const StateTransfer transfer(ranks, at::kCPU, with_files, state.tensors);
          ASSERT_TRUE(transfer.fill(transfer.has_files() ? reader_of(source) : must_not_read));
          EXPECT_TRUE(state.is_filled(true));
        });
}

TEST(StateTransfer, BringsWholeTensorsToTheFirstRankInTheTypeThatIsExported) {
  for (const int parts : {1, 2, 3, 4})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      on_ranks(parts, 1, [&](communicate::Communicator& ranks, CutState& state) {
        state.fill();
        const StateTransfer transfer(ranks, at::kCPU, parts, state.tensors);
        for (const checkpoint::LogicalTensor& tensor : state.tensors.tensors()) {
          const std::int64_t count = tensor.dimensions.elements();
          const at::Tensor out = ranks.rank() == 0 ? at::zeros({count}, type) : at::Tensor();
          transfer.bring_to_first(tensor.name, out);
          if (ranks.rank() != 0) continue;
          at::Tensor wanted = at::empty({count}, at::kFloat);
          for (std::int64_t i = 0; i < count; ++i)
            wanted.mutable_data_ptr<float>()[i] = number_at(tensor.name, checkpoint::parameter_state, i);
          EXPECT_TRUE(out.equal(wanted.to(type))) << tensor.name << " of " << parts << " parts";
        }
      });
}

TEST(StateTensors, AreTheSameHoweverTheStateIsCut) {
  const CutState whole({0, 1, 0, 1}), part({2, 3, 0, 1});
  EXPECT_EQ(whole.tensors.tensors(), part.tensors.tensors());
  ASSERT_EQ(whole.tensors.tensors().size(), 8U);
  EXPECT_EQ(whole.tensors.tensors()[2].dimensions, (spec::Dimensions{{96, 31}, 2}));
  EXPECT_EQ(model_dimensions(whole.tensors.tensors()[2]), (spec::Dimensions{{31, 96}, 2}));
}

TEST(StateTensors, AreEightBitsOfLargeTensorsThatBeginABlockAndAreNoEmbedding) {
  const CutState state({1, 3, 0, 1}, Moments::coded);
  const std::vector<std::string> plain{"parameter", "first_moment", "second_moment"};
  const std::vector<std::string> coded{"parameter", "first_moment_codes", "first_moment_scales",
                                       "second_moment_codes", "second_moment_scales"};
  std::map<std::string, std::vector<std::string>> found;
  for (const checkpoint::LogicalTensor& tensor : state.tensors.tensors()) found[tensor.name] = tensor.states;
  for (const char* name : {"attention", "key", "up", "gate", "down", "last"}) EXPECT_EQ(found[name], coded) << name;
  for (const char* name : {"embedding", "norm", "value"}) EXPECT_EQ(found[name], plain) << name;
}

TEST(StateTensors, OfAPartAreSavedInOnePieceEach) {
  for (const int parts : {1, 2, 3, 4})
    for (int part = 0; part < parts; ++part) {
      const CutState state({part, parts, 0, 1});
      std::size_t pieces = 0;
      for (std::size_t unit = 0; unit < state.tensors.units(); ++unit)
        pieces += state.tensors.pieces(unit, part).size();
      EXPECT_EQ(state.tensors.saved_pieces(part).size(), pieces * state.tensors.states().size());
    }
}

}  // namespace
}  // namespace muster::train

// One suite over every implementation: threads, one rank, Gloo processes; with a GPU also Gloo ranks that share it, and
// NCCL ranks where the variables are set that allow several on one GPU (docs/architecture.md).
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "worlds.hpp"

namespace muster::communicate {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

struct Setting {
  friend std::ostream& operator<<(std::ostream& out, const Setting& setting) { return out << setting.name; }
  std::string name;
  std::function<std::unique_ptr<World>()> make;
  std::vector<int> sizes;
  bool processes = false;
  bool asynchronous = false;  // collectives return before they are done
};

bool has_gpu() {
#ifdef MUSTER_CUDA
  return std::filesystem::exists("/dev/nvidia0") || std::getenv("MUSTER_TEST_GPU") != nullptr;
#else
  return false;
#endif
}

std::vector<Setting> settings() {
  std::vector<Setting> all{
      {"Alone", make_thread_world, {1}},
      {"Threads", make_thread_world, {2, 3, 4}},
      {"Gloo", [] { return make_process_world(Backend::gloo, false); }, {2, 3, 4}, true},
  };
  if (has_gpu()) {
    all.push_back({"GlooOnOneGpu", [] { return make_process_world(Backend::gloo, true); }, {2, 4}, true});
    if (std::getenv("NCCL_MAX_NCHANNELS") != nullptr)
      all.push_back({"NcclOnOneGpu", [] { return make_process_world(Backend::nccl, true); }, {2, 4}, true, true});
  }
  return all;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}
void require_equal(const at::Tensor& seen, const at::Tensor& expected, const std::string& what) {
  const at::Tensor left = seen.cpu(), right = expected.cpu();
  if (!at::equal(left, right))
    throw std::logic_error(fmt::format("{}: {} elements, of which {} differ", what, left.numel(),
                                       left.numel() == right.numel() ? left.ne(right).sum().item<std::int64_t>() : -1));
}

constexpr std::array types{at::kFloat, at::kBFloat16, at::kHalf, at::kLong};
constexpr std::array<std::int64_t, 7> counts{0, 1, 2, 3, 7, 1000, 70001};

// Small whole numbers: their sums over four ranks are exact in every type.
at::Tensor numbers(int rank, std::int64_t count, at::ScalarType type) {
  return ((at::arange(count, at::kLong) * (rank + 3) + rank) % 13 - 6).to(type);
}
at::Tensor all_numbers(int size, std::int64_t count, at::ScalarType type) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < size; ++rank) parts.push_back(numbers(rank, count, type));
  return at::stack(parts);  // [size, count]
}
at::Tensor sum_of_all(int size, std::int64_t count, at::ScalarType type) {
  return all_numbers(size, count, at::kLong).sum(0).to(type);
}
at::Tensor maximum_of_all(int size, std::int64_t count, at::ScalarType type) {
  return all_numbers(size, count, at::kLong).amax(0).to(type);
}

class Conformance : public ::testing::TestWithParam<Setting> {
 protected:
  std::unique_ptr<World> world_ = GetParam().make();
  at::Device device_ = world_->device(0);

  std::vector<RankOutcome> run(int size, milliseconds timeout, const RankBody& body, std::vector<int> absent = {}) {
    return world_->run(size, timeout, body, absent);
  }
  // On every number of ranks, where every rank must come to its end.
  void expect_all_done(const RankBody& body) {
    for (const int size : GetParam().sizes) {
      const auto outcomes = run(size, 60s, body);
      for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
        EXPECT_EQ(outcomes[rank].end, RankEnd::done)
            << "rank " << rank << " of " << size << ": " << outcomes[rank].what;
    }
  }
  // For each type and odd sizes.
  void expect_for_all(const std::function<void(Communicator&, at::ScalarType, std::int64_t)>& body) {
    expect_all_done([&](Communicator& ranks) {
      for (const auto type : types)
        for (const auto count : counts) body(ranks, type, count);
      ranks.barrier();
    });
  }
  at::Tensor here(const at::Tensor& tensor) const { return tensor.to(device_); }
  at::Tensor empty(std::int64_t count, at::ScalarType type) const {
    return at::full({count}, -99, at::TensorOptions().dtype(type).device(device_));
  }
  bool has_peers() const { return GetParam().sizes.front() > 1; }
};

TEST_P(Conformance, BroadcastGivesEveryRankTheRootsValues) {
  expect_for_all([this](Communicator& ranks, at::ScalarType type, std::int64_t count) {
    for (const int root : {0, ranks.size() - 1}) {
      const at::Tensor tensor = here(numbers(ranks.rank(), count, type));
      ranks.broadcast(tensor, root);
      require_equal(tensor, numbers(root, count, type), "broadcast");
    }
  });
}

TEST_P(Conformance, AllReduceGivesEveryRankTheSumAndTheMaximum) {
  expect_for_all([this](Communicator& ranks, at::ScalarType type, std::int64_t count) {
    at::Tensor tensor = here(numbers(ranks.rank(), count, type));
    ranks.all_reduce(tensor);
    require_equal(tensor, sum_of_all(ranks.size(), count, type), "sum");
    tensor = here(numbers(ranks.rank(), count, type));
    ranks.all_reduce(tensor, Reduction::maximum);
    require_equal(tensor, maximum_of_all(ranks.size(), count, type), "maximum");
  });
}

TEST_P(Conformance, AllGatherGivesEveryRankTheInputsOfAllByRank) {
  expect_for_all([this](Communicator& ranks, at::ScalarType type, std::int64_t count) {
    const at::Tensor output = empty(ranks.size() * count, type);
    ranks.all_gather(here(numbers(ranks.rank(), count, type)), output);
    require_equal(output, all_numbers(ranks.size(), count, type).view(-1), "all_gather");
  });
}

TEST_P(Conformance, ReduceScatterGivesEachRankItsPartOfTheReduction) {
  expect_for_all([this](Communicator& ranks, at::ScalarType type, std::int64_t count) {
    const std::int64_t whole = ranks.size() * count;
    at::Tensor output = empty(count, type);
    ranks.reduce_scatter(here(numbers(ranks.rank(), whole, type)), output);
    require_equal(output, sum_of_all(ranks.size(), whole, type).narrow(0, ranks.rank() * count, count), "sum");
    output = empty(count, type);
    ranks.reduce_scatter(here(numbers(ranks.rank(), whole, type)), output, Reduction::maximum);
    require_equal(output, maximum_of_all(ranks.size(), whole, type).narrow(0, ranks.rank() * count, count), "maximum");
  });
}

// Rank r sends (r + to) % 3 × scale elements to each rank: some send nothing to some.
TEST_P(Conformance, AllToAllExchangesPartsOfDifferentSizes) {
  expect_for_all([this](Communicator& ranks, at::ScalarType type, std::int64_t scale) {
    const auto share = [scale](int from, int to) { return (from + to) % 3 * scale; };
    const auto part = [&](int from, int to) { return numbers(10 * from + to, share(from, to), type); };
    std::vector<std::int64_t> sent, received;
    std::vector<at::Tensor> own, expected;
    for (int other = 0; other < ranks.size(); ++other) {
      sent.push_back(share(ranks.rank(), other));
      received.push_back(share(other, ranks.rank()));
      own.push_back(part(ranks.rank(), other));
      expected.push_back(part(other, ranks.rank()));
    }
    const at::Tensor all = at::cat(expected);
    const at::Tensor output = empty(all.numel(), type);
    ranks.all_to_all(here(at::cat(own)), sent, output, received);
    require_equal(output, all, "all_to_all");
  });
}

TEST_P(Conformance, WhatIsSentArrivesInOrder) {
  expect_for_all([this](Communicator& ranks, at::ScalarType type, std::int64_t count) {
    if (ranks.size() == 1) return;
    const int next = (ranks.rank() + 1) % ranks.size(), last = (ranks.rank() + ranks.size() - 1) % ranks.size();
    const auto send = [&] {
      for (int letter = 0; letter < 3; ++letter)
        ranks.send(here(numbers(ranks.rank() + 100 * letter, count, type)), next);
    };
    if (ranks.rank() == 0) send();
    for (int letter = 0; letter < 3; ++letter) {
      const at::Tensor tensor = empty(count, type);
      ranks.receive(tensor, last);
      require_equal(tensor, numbers(last + 100 * letter, count, type), "receive");
    }
    if (ranks.rank() != 0) send();
  });
}

TEST_P(Conformance, ManyCollectivesInARandomOrderKeepTheirOrder) {
  expect_all_done([this](Communicator& ranks) {
    std::mt19937 chance(7);  // the same on every rank
    for (int step = 0; step < 60; ++step) {
      const auto count = static_cast<std::int64_t>(chance() % 50 + 1);
      at::Tensor tensor = here(numbers(ranks.rank() + step, count, at::kLong));
      std::vector<at::Tensor> parts;
      for (int rank = 0; rank < ranks.size(); ++rank) parts.push_back(numbers(rank + step, count, at::kLong));
      const at::Tensor all = at::stack(parts);
      switch (chance() % 3) {
        case 0:
          ranks.all_reduce(tensor);
          require_equal(tensor, all.sum(0), "all_reduce");
          break;
        case 1: {
          const int root = static_cast<int>(chance() % static_cast<unsigned>(ranks.size()));
          ranks.broadcast(tensor, root);
          require_equal(tensor, all[root], "broadcast");
          break;
        }
        default: {
          const at::Tensor output = empty(ranks.size() * count, at::kLong);
          ranks.all_gather(tensor, output);
          require_equal(output, all.view(-1), "all_gather");
        }
      }
    }
  });
}

TEST_P(Conformance, LargeAndNegativeIntegersAreSummedExactly) {
  expect_all_done([this](Communicator& ranks) {
    const std::int64_t large = (std::int64_t{1} << 60) + 1;
    const at::Tensor tensor = here(at::full({3}, ranks.rank() % 2 == 0 ? large : -large + 5, at::kLong));
    ranks.all_reduce(tensor);
    std::int64_t expected = 0;
    for (int rank = 0; rank < ranks.size(); ++rank) expected += rank % 2 == 0 ? large : -large + 5;
    require(tensor[1].item<std::int64_t>() == expected, fmt::format("{}", tensor[1].item<std::int64_t>()));
  });
}

TEST_P(Conformance, TheSameFloatsGiveTheSameBitsAgain) {
  expect_all_done([this](Communicator& ranks) {
    const at::Tensor values = here(at::sin(at::arange(10007, at::kFloat) * static_cast<float>(ranks.rank() + 1)));
    const at::Tensor first = values.clone(), second = values.clone();
    ranks.all_reduce(first);
    ranks.all_reduce(second);
    require_equal(first, second, "all_reduce again");
    // Every rank has the same bits, too.
    const at::Tensor root = first.clone();
    ranks.broadcast(root, 0);
    require_equal(first, root, "all_reduce on another rank");
  });
}

TEST_P(Conformance, ShapesDoNotMatter) {
  expect_all_done([this](Communicator& ranks) {
    const at::Tensor tensor = here(numbers(ranks.rank(), 24, at::kFloat).view({2, 3, 4}));
    ranks.all_reduce(tensor);
    require_equal(tensor, sum_of_all(ranks.size(), 24, at::kFloat).view({2, 3, 4}), "all_reduce");
    const at::Tensor output = empty(24 * ranks.size(), at::kFloat).view({4, -1});
    ranks.all_gather(here(numbers(ranks.rank(), 24, at::kFloat).view({4, 6})), output);
    require_equal(output.view(-1), all_numbers(ranks.size(), 24, at::kFloat).view(-1), "all_gather");
  });
}

// Arguments that cannot be meant are refused on the rank that gives them, before anybody waits.
TEST_P(Conformance, WrongArgumentsAreRefusedWithTheNumbers) {
  expect_all_done([this](Communicator& ranks) {
    const auto refused = [](const std::string& part, const std::function<void()>& call) {
      try {
        call();
      } catch (const std::invalid_argument& problem) {
        require(std::string(problem.what()).find(part) != std::string::npos, problem.what());
        return;
      }
      throw std::logic_error("not refused: " + part);
    };
    const at::Tensor ten = empty(10, at::kFloat);
    const int size = ranks.size();
    refused(fmt::format("must have {}", 10 * size), [&] { ranks.all_gather(ten, empty(10 * size + 1, at::kFloat)); });
    refused(fmt::format("must have {}", 10 * size),
            [&] { ranks.reduce_scatter(empty(10 * size + 1, at::kFloat), ten); });
    refused("Long", [&] { ranks.all_gather(ten, empty(10 * size, at::kLong)); });
    refused("Double", [&] { ranks.all_reduce(empty(3, at::kDouble)); });
    refused("not contiguous", [&] { ranks.all_reduce(empty(12, at::kFloat).view({3, 4}).t()); });
    refused("no rank", [&] { ranks.broadcast(ten, size); });
    refused("itself", [&] { ranks.send(ten, ranks.rank()); });
    refused("no tensor|none", [&] {
      try {
        ranks.all_reduce(at::Tensor());
      } catch (const std::invalid_argument&) {
        throw std::invalid_argument("no tensor|none");
      }
    });
    const std::vector<std::int64_t> wrong(static_cast<std::size_t>(size), 11);
    refused("add up to", [&] { ranks.all_to_all(ten, wrong, ten, wrong); });
    ranks.barrier();
  });
}

TEST_P(Conformance, AnAbortEndsAWaitAndEverythingAfterIt) {
  const int size = GetParam().sizes.back();
  const auto outcomes = run(size, 60s, [this](Communicator& ranks) {
    ranks.barrier();
    if (ranks.rank() != 0) {  // the others leave rank 0 alone
      std::this_thread::sleep_for(ranks.size() > 1 ? 4s : 0s);
      return;
    }
    std::jthread aborter([&] {
      std::this_thread::sleep_for(200ms);
      ranks.abort("a test wants it");
    });
    if (ranks.size() == 1) aborter.join();
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        ranks.barrier();
      } catch (const CommunicationError& problem) {
        require(std::string(problem.what()).find("a test wants it") != std::string::npos, problem.what());
        continue;
      }
      throw std::logic_error("a barrier that nobody else came to was passed");
    }
  });
  EXPECT_EQ(outcomes[0].end, RankEnd::done) << outcomes[0].what;
}

TEST_P(Conformance, ATimeoutNamesTheRankThatDidNotComeOnEveryRankThatWaited) {
  if (!has_peers()) GTEST_SKIP() << "one rank waits for nobody";
  const int size = GetParam().sizes.back();
  const auto outcomes = run(size, 3s, [](Communicator& ranks) {
    ranks.barrier();
    if (ranks.rank() == 1) {
      std::this_thread::sleep_for(5s);
      return;
    }
    ranks.barrier();
  });
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 1) continue;
    const RankOutcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_EQ(outcome.end, RankEnd::threw) << rank;
    EXPECT_EQ(outcome.missing, std::vector<int>{1}) << outcome.what;
    EXPECT_NE(outcome.what.find("rank 1"), std::string::npos) << outcome.what;
    EXPECT_NE(outcome.what.find("all_reduce of 1"), std::string::npos) << outcome.what;
  }
}

TEST_P(Conformance, AReceiveFromARankThatSendsNothingNamesIt) {
  if (!has_peers()) GTEST_SKIP() << "one rank waits for nobody";
  const auto outcomes = run(2, 3s, [this](Communicator& ranks) {
    ranks.barrier();
    if (ranks.rank() == 1) {
      std::this_thread::sleep_for(5s);
      return;
    }
    ranks.receive(empty(5, at::kFloat), 1);
    if (GetParam().asynchronous) ranks.barrier();
  });
  EXPECT_EQ(outcomes[0].end, RankEnd::threw);
  EXPECT_EQ(outcomes[0].missing, std::vector<int>{1}) << outcomes[0].what;
}

TEST_P(Conformance, RanksThatNeverJoinAreNamed) {
  if (!GetParam().processes) GTEST_SKIP() << "threads of one process have joined when they exist";
  const auto outcomes = run(4, 3s, [](Communicator&) {}, {1, 3});
  for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(outcomes[rank].end, RankEnd::could_not_join);
    EXPECT_NE(outcomes[rank].what.find("ranks 1 and 3 of 4 did not join"), std::string::npos) << outcomes[rank].what;
  }
}

TEST_P(Conformance, ARankThatDiesDoesNotLeaveTheOthersHanging) {
  if (!GetParam().processes) GTEST_SKIP() << "a thread does not die alone";
  const int size = GetParam().sizes.back();
  const auto outcomes = run(size, 4s, [this](Communicator& ranks) {
    ranks.barrier();
    if (ranks.rank() == 1) ::kill(::getpid(), SIGKILL);
    const at::Tensor tensor = here(at::ones({1000}));
    for (int step = 0; step < 3; ++step) {
      ranks.all_reduce(tensor);
      ranks.barrier();
    }
  });
  for (int rank = 0; rank < size; ++rank) {
    const RankOutcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_EQ(outcome.end, rank == 1 ? RankEnd::killed : RankEnd::threw) << rank << ": " << outcome.what;
  }
}

// What ranks disagree about is told, where it would otherwise be a hang or nonsense.
TEST_P(Conformance, RanksThatDoDifferentThingsAreToldSo) {
  if (!has_peers() || GetParam().asynchronous)
    GTEST_SKIP() << "nobody to disagree with, or a GPU that hangs until the time-out";
  const auto outcomes = run(2, 3s, [this](Communicator& ranks) {
    ranks.barrier();
    if (ranks.rank() == 0)
      ranks.all_reduce(empty(1000, at::kFloat));
    else
      ranks.broadcast(empty(7, at::kFloat), 1);
    ranks.barrier();
  });
  const bool told = outcomes[0].what.find("broadcast from rank 1 of 7 Float") != std::string::npos ||
                    outcomes[1].what.find("all_reduce of 1000 Float") != std::string::npos;
  EXPECT_TRUE(told) << outcomes[0].what << " / " << outcomes[1].what;
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, ::testing::ValuesIn(settings()),
                         [](const auto& setting) { return setting.param.name; });

}  // namespace
}  // namespace muster::communicate

#include "queue/gpu_watch.hpp"

#include <gtest/gtest.h>

namespace muster::queue {
namespace {

using schedule::GpuState;

struct Watched : ::testing::Test {
  // One look, and what it made of each GPU.
  std::string look(const Result<GpuListing>& seen) {
    for (schedule::Happening& what : watch.compare(seen, scheduler)) tell(std::move(what));
    if (auto linked = watch.compare_links(seen, scheduler)) tell(std::move(*linked));
    std::string states;
    for (const schedule::GpuStatus& gpu : scheduler.gpus().all()) states += "fthl"[static_cast<int>(gpu.state)];
    return states;
  }
  void tell(schedule::Happening what) { ASSERT_TRUE(scheduler.apply({schedule::Time{}, std::move(what)})); }
  void run_a_job(int gpus) {
    schedule::Job job;
    job.id.text = "1";
    job.gpus = schedule::GpuRequest::exactly(gpus);
    tell(schedule::Submitted{{job}});
  }
  schedule::JobState state() const { return scheduler.jobs().all().front().state; }

  GpuWatch watch;
  schedule::Scheduler scheduler;
};

GpuListing listing(std::initializer_list<const char*> names) {
  GpuListing listing;
  for (const char* name : names) listing.gpus.push_back({name, {}});
  return listing;
}
GpuListing with_ill(GpuListing listing, std::size_t which) {
  listing.gpus[which].sickness = "Xid 79";
  return listing;
}
const Error no_answer{Error::Kind::failed, "the driver does not answer", ""};

TEST_F(Watched, GpusThatAppearAreUsed) {
  EXPECT_EQ(look(listing({"a"})), "f");
  EXPECT_EQ(look(listing({"a", "b"})), "ff");
  EXPECT_EQ(look(listing({"a", "b"})), "ff");
  EXPECT_EQ(look(with_ill(listing({"a", "b", "c"}), 2)), "ff") << "c was never well";
}

TEST_F(Watched, OneThatFallsIllIsLostAndComesBackWhenItIsWell) {
  look(listing({"a", "b"}));
  run_a_job(2);
  EXPECT_EQ(look(with_ill(listing({"a", "b"}), 1)), "tl");
  EXPECT_EQ(state(), schedule::JobState::stopping);
  EXPECT_EQ(look(listing({"a", "b"})), "tt");
}

TEST_F(Watched, OneThatVanishesIsLostAtTheSecondLook) {
  look(listing({"a", "b"}));
  EXPECT_EQ(look(listing({"a"})), "ff");
  EXPECT_EQ(look(listing({"a"})), "fl");
  EXPECT_EQ(look(listing({"a", "b"})), "ff");
  EXPECT_EQ(look(listing({"a"})), "ff") << "the looks are counted anew";
}

TEST_F(Watched, OneThatWasNeverShownIsLeftToWhoeverUsesIt) {
  tell(schedule::GpuFound{"of another conductor"});
  tell(schedule::GpuFound{"busy"});
  run_a_job(1);
  EXPECT_EQ(look(listing({"a"})), "thf");
  EXPECT_EQ(look(listing({"a"})), "thf");
  EXPECT_EQ(state(), schedule::JobState::running);
}

TEST_F(Watched, NothingIsConcludedFromALookThatFailed) {
  look(listing({"a", "b"}));
  run_a_job(1);
  for (int looks = 0; looks < 3; ++looks) EXPECT_EQ(look(no_answer), "th");
  EXPECT_EQ(state(), schedule::JobState::running);
  EXPECT_EQ(scheduler.gpus().all()[1].words, "the driver does not answer");
}

TEST_F(Watched, LinksAreToldOnceAndWhenTheyChange) {
  GpuListing linked = listing({"a", "b", "c"});
  linked.links = {{"c", "a", 7}, {"a", "unknown", 9}};
  look(linked);
  EXPECT_EQ(scheduler.links(), (std::vector<schedule::GpuLink>{{schedule::GpuNumber{0}, schedule::GpuNumber{2}, 7}}));
  EXPECT_FALSE(watch.compare_links(linked, scheduler));
  EXPECT_TRUE(watch.compare_links(listing({"a", "b", "c"}), scheduler));
  EXPECT_FALSE(watch.compare_links(no_answer, scheduler));
}

}  // namespace
}  // namespace muster::queue

#include "launch/keeper/signal_name.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace muster::launch {
namespace {

TEST(SignalNames, ReadsAndWritesThem) {
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_number("SIGUSR1"), SIGUSR1);
  EXPECT_EQ(signal_number("usr2"), SIGUSR2);
  EXPECT_EQ(signal_number("SIGNOTHING"), std::nullopt);
}

TEST(SignalNames, ReadsAList) { EXPECT_EQ(*parse_signal_list("SIGTERM, SIGINT"), (std::set<int>{SIGTERM, SIGINT})); }

TEST(SignalNames, RefusesWhatCannotBeHandled) {
  EXPECT_FALSE(parse_signal_list("SIGTERM,SIGKILL"));
  EXPECT_FALSE(parse_signal_list("SIGTERM,"));
  EXPECT_FALSE(parse_signal_list("15"));
}

}  // namespace
}  // namespace muster::launch

#include "system/line_connection.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

namespace muster {
namespace {

struct Pair {
  explicit Pair(LineLimits limits = {}) : Pair(make(), limits) {}
  LineConnection near;
  FileDescriptor far;

 private:
  static std::array<int, 2> make() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    return ends;
  }
  Pair(std::array<int, 2> ends, LineLimits limits) : near(FileDescriptor(ends[0]), limits), far(ends[1]) {}
};

void say(const FileDescriptor& socket, std::string_view text) {
  ASSERT_EQ(::send(socket.number(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
}

using Lines = std::vector<std::string>;

TEST(LineConnection, GivesLinesWhenTheyAreWholeHoweverTheyCome) {
  Pair pair;
  say(pair.far, "one\ntw");
  EXPECT_EQ(pair.near.receive(), Lines{"one"});
  say(pair.far, "o");
  EXPECT_EQ(pair.near.receive(), Lines{});
  say(pair.far, "\n\nthree\n");
  EXPECT_EQ(pair.near.receive(), (Lines{"two", "", "three"}));
  EXPECT_FALSE(pair.near.broken());
}

TEST(LineConnection, GivesWhatCameBeforeTheEndAndThenTellsIt) {
  Pair pair;
  say(pair.far, "last\nhalf");
  pair.far = FileDescriptor();
  EXPECT_EQ(pair.near.receive(), Lines{"last"});
  EXPECT_TRUE(pair.near.broken());
  EXPECT_EQ(pair.near.receive(), Lines{});
}

TEST(LineConnection, RefusesALineThatIsTooLong) {
  Pair pair(LineLimits{.longest_line = 10});
  say(pair.far, "0123456789\n");
  EXPECT_EQ(pair.near.receive(), Lines{"0123456789"});
  say(pair.far, "0123456789x");
  EXPECT_EQ(pair.near.receive(), Lines{});
  ASSERT_TRUE(pair.near.broken());
  EXPECT_NE(pair.near.broken()->find("10 bytes"), std::string::npos);
}

TEST(LineConnection, HoldsWhatTheOtherSideLeavesUnreadUpToItsLimitAndSendsItLater) {
  Pair pair(LineLimits{.most_unsent = std::size_t{4} << 20});
  const std::string line(100000, 'x');
  std::size_t sent = 0;
  while (!pair.near.wants_to_write()) {
    pair.near.send(line);
    sent += line.size() + 1;
  }
  EXPECT_FALSE(pair.near.broken());
  std::string received(sent, ' ');
  std::size_t came = 0;
  while (came < sent) {
    const ssize_t count = ::recv(pair.far.number(), received.data() + came, sent - came, MSG_DONTWAIT);
    if (count > 0) came += static_cast<std::size_t>(count);
    pair.near.receive();
  }
  EXPECT_FALSE(pair.near.wants_to_write());
  for (int lines = 0; lines < 100; ++lines) pair.near.send(line);
  EXPECT_TRUE(pair.near.broken());
}

}  // namespace
}  // namespace muster

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "system/files.hpp"
#include "launch/log_pump.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::launch {
namespace {

// A terminal of the test's own, 33 lines high and 77 characters wide.
struct Terminal {
  Terminal() : outer(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    ::grantpt(outer.number());
    ::unlockpt(outer.number());
    inner = FileDescriptor(::ioctl(outer.number(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    const winsize size{.ws_row = 33, .ws_col = 77, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(inner.number(), TIOCSWINSZ, &size);
  }
  FileDescriptor outer;
  FileDescriptor inner;
};

TEST(RelayStream, IsATerminalOfTheSameSizeWhereTheConsoleIsOne) {
  const Terminal terminal;
  ASSERT_TRUE(::isatty(terminal.inner.number()));
  const auto relay = relay_stream(terminal.inner.number());
  ASSERT_TRUE(relay);
  EXPECT_TRUE(::isatty(relay->theirs.number()));
  winsize size{};
  ASSERT_EQ(::ioctl(relay->theirs.number(), TIOCGWINSZ, &size), 0);
  EXPECT_EQ(size.ws_row, 33);
  EXPECT_EQ(size.ws_col, 77);
}

TEST(RelayStream, IsAPipeWhereTheConsoleIsNoTerminal) {
  const FileDescriptor nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto relay = relay_stream(nothing.number());
  ASSERT_TRUE(relay);
  EXPECT_FALSE(::isatty(relay->theirs.number()));
  EXPECT_GT(::fcntl(relay->theirs.number(), F_GETPIPE_SZ), 0);
}

TEST(RelayStream, IsNotInheritedByProgramsThatAreStarted) {
  const Terminal terminal;
  const FileDescriptor nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (const int console : {terminal.inner.number(), nothing.number()}) {
    const auto relay = relay_stream(console);
    ASSERT_TRUE(relay);
    for (const FileDescriptor* end : {&relay->ours, &relay->theirs})
      EXPECT_TRUE(::fcntl(end->number(), F_GETFD) & FD_CLOEXEC);
  }
}

TEST(RelayStream, BringsBytesThroughATerminalUnchanged) {
  const Terminal terminal;
  const testing::ScratchFolder scratch;
  const std::filesystem::path seen = scratch.path() / "seen";
  const FileDescriptor console(::open(seen.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  auto relay = relay_stream(terminal.inner.number());
  ASSERT_TRUE(relay);
  LogPump pump = LogPump::start(console.number(), console.number()).value();
  PumpedStream stream;
  stream.errors = true;
  stream.piped = std::move(relay->ours);
  ASSERT_TRUE(pump.add(std::move(stream)));
  const std::string text = "a\tb\n\r10%\xff\x03\x04\x1b[0m\nend";
  ASSERT_EQ(::write(relay->theirs.number(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  relay->theirs = FileDescriptor();
  pump.finish();
  EXPECT_EQ(read_file(seen).value(), text);
}

}  // namespace
}  // namespace muster::launch

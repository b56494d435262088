#include "launch/log_pump.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

#include "system/files.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::launch {
namespace {

using namespace std::string_literals;
using Lines = std::vector<std::string>;

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2: " + system_reason());
    read = FileDescriptor(ends[0]);
    write = FileDescriptor(ends[1]);
  }
  FileDescriptor read;
  FileDescriptor write;
};

void put(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(descriptor, text.data(), text.size());
    ASSERT_GT(done, 0) << system_reason();
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

// What comes out of a pipe, up to and including the words.
std::string read_until(int descriptor, std::string_view words) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::string text;
  while (text.find(words) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
    pollfd look{descriptor, POLLIN, 0};
    if (::poll(&look, 1, 100) <= 0) continue;
    std::array<char, 65536> block;
    const ssize_t got = ::read(descriptor, block.data(), block.size());
    if (got <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  return text;
}

// A rank that writes a file, as it does when its output is redirected.
class RankFile {
 public:
  RankFile(const testing::ScratchFolder& folder, const std::string& name)
      : path_(folder.path() / name), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {}
  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view text) const { put(file_.number(), text); }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

// A console whose two sides are files.
class LogPumpTest : public ::testing::Test {
 protected:
  static FileDescriptor open_side(const std::filesystem::path& path) {
    return FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  }
  static PumpedStream followed(const RankFile& file, std::optional<std::string> prefix, int rank = 0) {
    PumpedStream stream;
    stream.local_rank = rank;
    stream.followed = file.path();
    stream.prefix = std::move(prefix);
    return stream;
  }
  static PumpedStream piped(FileDescriptor end, int rank = 0) {
    PumpedStream stream;
    stream.local_rank = rank;
    stream.piped = std::move(end);
    return stream;
  }
  std::string output() const { return read_file(scratch_.path() / "console.output").value(); }
  std::string errors() const { return read_file(scratch_.path() / "console.errors").value(); }

  const testing::ScratchFolder scratch_;
  const FileDescriptor output_ = open_side(scratch_.path() / "console.output");
  const FileDescriptor errors_ = open_side(scratch_.path() / "console.errors");
  LogPump pump_ = LogPump::start(output_.number(), errors_.number()).value();
};

TEST_F(LogPumpTest, ShowsALineOfAFollowedFileAsSoonAsItIsWhole) {
  const Pipe console;
  const RankFile file(scratch_, "stdout.log");
  LogPump pump = LogPump::start(console.write.number(), console.write.number()).value();
  ASSERT_TRUE(pump.add(followed(file, "[default0]:")));
  file.write("one\ntw");
  EXPECT_EQ(read_until(console.read.number(), "\n"), "[default0]:one\n");
  file.write("o\n");
  EXPECT_EQ(read_until(console.read.number(), "\n"), "[default0]:two\n");
}

TEST_F(LogPumpTest, ShowsWhatStoodInAFileBeforeItWasAdded) {
  const RankFile file(scratch_, "stdout.log");
  file.write("early\n");
  ASSERT_TRUE(pump_.add(followed(file, "> ")));
  pump_.finish();
  EXPECT_EQ(output(), "> early\n");
}

TEST_F(LogPumpTest, EndsALastLineThatHasNoEnd) {
  const RankFile first(scratch_, "0"), second(scratch_, "1");
  ASSERT_TRUE(pump_.add(followed(first, "0> ", 0)));
  ASSERT_TRUE(pump_.add(followed(second, "1> ", 1)));
  first.write("cut off");
  second.write("whole\n");
  pump_.finish();
  EXPECT_EQ(output().size(), std::string("0> cut off\n1> whole\n").size());
  EXPECT_NE(output().find("0> cut off\n"), std::string::npos) << output();
}

TEST_F(LogPumpTest, KeepsTheTwoSidesOfTheConsoleApart) {
  const RankFile file(scratch_, "stderr.log");
  Pipe pipe;
  PumpedStream wrong = followed(file, "> ");
  wrong.errors = true;
  ASSERT_TRUE(pump_.add(std::move(wrong)));
  ASSERT_TRUE(pump_.add(piped(std::move(pipe.read))));
  file.write("wrong\n");
  put(pipe.write.number(), "right\n");
  pump_.finish();
  EXPECT_EQ(output(), "right\n");
  EXPECT_EQ(errors(), "> wrong\n");
}

TEST_F(LogPumpTest, PassesBytesOfAPipeOnUnchanged) {
  const Pipe console;
  Pipe pipe;
  LogPump pump = LogPump::start(console.write.number(), console.write.number()).value();
  ASSERT_TRUE(pump.add(piped(std::move(pipe.read))));
  const std::string bar = "\r 10%\xff\0\x1b[0m"s;
  put(pipe.write.number(), bar);
  EXPECT_EQ(read_until(console.read.number(), "[0m"), bar);
}

// The line of this number, with its rank before it.
std::string numbered_line(std::size_t rank, std::size_t number) {
  return std::to_string(rank) + ":" + std::to_string(number) + std::string(number % 90, '.');
}

// Eight ranks at full speed, every other one through a pipe: there each writes its own number before the line, and the
// writes are small enough to be atomic.
TEST_F(LogPumpTest, LosesNoByteAndMixesNoLines) {
  constexpr std::size_t ranks = 8, lines_per_rank = 20000;
  std::vector<std::thread> writers;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const bool by_pipe = rank % 2 == 1;
    const RankFile file(scratch_, std::to_string(rank));
    Pipe pipe;
    ASSERT_TRUE(by_pipe ? pump_.add(piped(std::move(pipe.read)))
                        : pump_.add(followed(file, std::to_string(rank) + ":")));
    FileDescriptor end =
        by_pipe ? std::move(pipe.write) : FileDescriptor(::open(file.path().c_str(), O_WRONLY | O_CLOEXEC));
    writers.emplace_back([rank, by_pipe, end = std::move(end)] {
      for (std::size_t line = 0; line < lines_per_rank; ++line)
        put(end.number(), numbered_line(rank, line).substr(by_pipe ? 0 : 2) + "\n");
    });
  }
  for (std::thread& writer : writers) writer.join();
  pump_.finish();

  std::array<std::size_t, ranks> next{};
  std::istringstream console(output());
  for (std::string line; std::getline(console, line);) {
    const std::size_t rank = static_cast<std::size_t>(line.at(0) - '0');
    ASSERT_LT(rank, next.size()) << line;
    ASSERT_EQ(line, numbered_line(rank, next[rank]++));
  }
  for (const std::size_t lines : next) EXPECT_EQ(lines, lines_per_rank);
}

TEST_F(LogPumpTest, WaitsForAConsoleThatSomeoneMadeNonBlocking) {
  const Pipe console;
  const RankFile file(scratch_, "stdout.log");
  ::fcntl(console.write.number(), F_SETFL, O_NONBLOCK);
  LogPump pump = LogPump::start(console.write.number(), console.write.number()).value();
  ASSERT_TRUE(pump.add(followed(file, "")));
  std::string text;
  while (text.size() < (std::size_t{1} << 20)) text += std::to_string(text.size()) + "\n";
  file.write(text + "end\n");
  EXPECT_EQ(read_until(console.read.number(), "end\n"), text + "end\n");
}

TEST_F(LogPumpTest, GoesOnReadingWhenTheConsoleIsGone) {
  Pipe console, pipe;
  LogPump pump = LogPump::start(console.write.number(), console.write.number()).value();
  PumpedStream stream = piped(std::move(pipe.read), 2);
  stream.errors = true;
  ASSERT_TRUE(pump.add(std::move(stream)));
  console.read = FileDescriptor();
  put(pipe.write.number(), std::string(std::size_t{4} << 20, 'x'));  // stands still unless someone reads
  put(pipe.write.number(), "\nlast words\n");
  pump.finish();
  EXPECT_EQ(pump.last_error_lines(2, 1), Lines{"last words"});
}

TEST_F(LogPumpTest, GoesOnReadingWhenTheDiskBehindTheConsoleIsFull) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Pipe pipe;
  LogPump pump = LogPump::start(full.number(), full.number()).value();
  ASSERT_TRUE(pump.add(piped(std::move(pipe.read))));
  put(pipe.write.number(), std::string(std::size_t{4} << 20, 'x'));
}

TEST_F(LogPumpTest, DoesNotWaitForAProcessThatStillHoldsThePipe) {
  Pipe pipe;
  ASSERT_TRUE(pump_.add(piped(std::move(pipe.read))));
  put(pipe.write.number(), "said");
  pump_.finish();
  EXPECT_EQ(output(), "said");
  pollfd look{pipe.write.number(), POLLOUT, 0};
  ASSERT_EQ(::poll(&look, 1, 0), 1);
  EXPECT_TRUE((look.revents & POLLERR) != 0) << "the pipe is not let go";
}

TEST_F(LogPumpTest, FinishesThoughSomeoneNeverStopsWriting) {
  const RankFile file(scratch_, "stdout.log");
  ASSERT_TRUE(pump_.add(followed(file, "> ")));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) file.write("more\n");
  });
  pump_.finish();
  stop = true;
  writer.join();
}

TEST_F(LogPumpTest, RemembersTheLastErrorLinesOfEachRank) {
  const RankFile shown(scratch_, "0"), silent(scratch_, "1");
  Pipe pipe, other;
  const auto add_errors = [&](PumpedStream stream) {
    stream.errors = true;
    stream.console = stream.local_rank != 1;
    ASSERT_TRUE(pump_.add(std::move(stream)));
  };
  add_errors(followed(shown, "0> ", 0));
  add_errors(followed(silent, "1> ", 1));
  add_errors(piped(std::move(pipe.read), 2));
  ASSERT_TRUE(pump_.add(piped(std::move(other.read), 2)));
  for (const RankFile* file : {&shown, &silent}) file->write("one\ntwo\nthree");
  put(pipe.write.number(), "one\ntwo\nthree");
  put(other.write.number(), "standard output\n");
  pump_.finish();
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(pump_.last_error_lines(rank, 2), (Lines{"two", "three"})) << rank;
  EXPECT_EQ(pump_.last_error_lines(3, 2), Lines{});
  EXPECT_EQ(errors().find("1> "), std::string::npos) << errors();
}

TEST_F(LogPumpTest, CopiesFilteredLinesOfAllRanksIntoOneFile) {
  const RankFile first(scratch_, "0"), second(scratch_, "1");
  const std::filesystem::path matches = scratch_.path() / "filtered_stdout.log";
  for (const RankFile* file : {&first, &second}) {
    PumpedStream stream = followed(*file, file == &first ? "0> " : "1> ");
    stream.filters = {"loss"};
    stream.filtered = matches;
    ASSERT_TRUE(pump_.add(std::move(stream)));
  }
  first.write("step 1\nloss 0.5\n");
  second.write("loss 0.4");
  pump_.finish();
  const std::string text = read_file(matches).value();
  EXPECT_TRUE(text == "0> loss 0.5\n1> loss 0.4\n" || text == "1> loss 0.4\n0> loss 0.5\n") << text;
}

TEST_F(LogPumpTest, SaysWhichFileItCannotFollow) {
  PumpedStream stream;
  stream.followed = scratch_.path() / "absent";
  const auto added = pump_.add(std::move(stream));
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().what.find("absent: No such file"), std::string::npos) << added.error().what;
}

// The pump is kept busy by a console that takes no more, and meanwhile the file loses its name: there is an open file
// then, and nothing a watch could be put on.
TEST_F(LogPumpTest, FollowsAFileForWhichTheKernelGrantsNoWatch) {
  const Pipe console;
  Pipe busy;
  LogPump pump = LogPump::start(console.write.number(), console.write.number()).value();
  const int holds = ::fcntl(console.write.number(), F_GETPIPE_SZ);
  ASSERT_TRUE(pump.add(piped(std::move(busy.read))));
  put(busy.write.number(), std::string(static_cast<std::size_t>(holds) + 1, '.'));
  for (int waiting = 0; waiting < holds; std::this_thread::yield()) ::ioctl(console.read.number(), FIONREAD, &waiting);

  const RankFile file(scratch_, "stdout.log");
  ASSERT_TRUE(pump.add(followed(file, "> ")));
  std::filesystem::remove(file.path());
  file.write("one\n");
  EXPECT_TRUE(read_until(console.read.number(), "> one\n").ends_with("> one\n"));
  file.write("two\n");
  EXPECT_EQ(read_until(console.read.number(), "\n"), "> two\n");
}

TEST_F(LogPumpTest, LetsGoOfAPipeWhoseWritersAreGone) {
  const Pipe console;
  Pipe ended, going_on;
  LogPump pump = LogPump::start(console.write.number(), console.write.number()).value();
  ASSERT_TRUE(pump.add(piped(std::move(ended.read))));
  ASSERT_TRUE(pump.add(piped(std::move(going_on.read))));
  put(ended.write.number(), "one\n");
  ended.write = FileDescriptor();
  EXPECT_EQ(read_until(console.read.number(), "\n"), "one\n");
  put(going_on.write.number(), "two\n");
  EXPECT_EQ(read_until(console.read.number(), "\n"), "two\n");
}

TEST_F(LogPumpTest, LeavesNoDescriptorBehind) {
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_descriptors();
  {
    const RankFile file(scratch_, "stderr.log");
    Pipe pipe;
    LogPump pump = LogPump::start(output_.number(), errors_.number()).value();
    PumpedStream stream = followed(file, "> ");
    stream.errors = true;
    ASSERT_TRUE(pump.add(std::move(stream)));
    ASSERT_TRUE(pump.add(piped(std::move(pipe.read))));
    LogPump moved = std::move(pump);
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace muster::launch

// Both ends of the channel in one process, over a real socket.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "system/line_connection.hpp"
#include "wire/control_server.hpp"
#include "wire/unix_socket.hpp"
#include "wire/worker_channel.hpp"

namespace muster::wire {
namespace {

using namespace std::chrono_literals;

// Hands out a number of requests and remembers what happened.
class Recorder : public ControlListener {
 public:
  explicit Recorder(int requests = 0) : left_(requests) {}

  Result<void> on_event(const Event& event) override {
    const std::lock_guard guard(mutex_);
    events_.push_back(event);
    if (refuse_results && std::holds_alternative<TaskResult>(event.body))
      return Error{Error::Kind::failed, "the disk is full", ""};
    return {};
  }
  Result<NextRequest> next_request(int rank) override {
    const std::lock_guard guard(mutex_);
    if (held_back) return NextRequest(NotYet{});
    if (left_ == 0) return NextRequest(EndOfRequests{});
    --left_;
    given_.push_back(rank);
    return NextRequest(Request{next_++, "{}"});
  }
  std::optional<int> input() override { return input_descriptor; }
  Result<void> rank_left(int rank, const std::optional<std::string>& reason) override {
    left_ranks.emplace_back(rank, reason);
    return {};
  }
  bool is_stranded(int rank) override { return left_ranks.size() == 1 && rank == useless_then; }

  template <class Kind>
  std::vector<Kind> all() {
    const std::lock_guard guard(mutex_);
    std::vector<Kind> found;
    for (const Event& event : events_)
      if (const auto* kind = std::get_if<Kind>(&event.body)) found.push_back(*kind);
    return found;
  }

  std::atomic<bool> held_back = false;
  bool refuse_results = false;
  std::optional<int> input_descriptor;
  std::optional<int> useless_then;  // a rank, when another one has left
  std::vector<std::pair<int, std::optional<std::string>>> left_ranks;

 private:
  std::mutex mutex_;
  int left_;
  std::int64_t next_ = 0;
  std::vector<Event> events_;
  std::vector<int> given_;
};

ControlServer open_server() { return *ControlServer::open(); }

Hello hello() { return {protocol_version, ::getpid(), "test", std::nullopt}; }

// What a rank that answers every request does.
std::vector<std::int64_t> work_off(WorkerChannel& channel) {
  std::vector<std::int64_t> done;
  channel.want(2);
  while (const auto request = channel.next_request()) {
    done.push_back(request->index);
    channel.tell(TaskResult{request->index, "{}"});
    channel.want(1);
  }
  channel.tell(Done{});
  return done;
}

TEST(Channel, EveryRankGetsTheAssignmentAndEveryRequestIsAnsweredOnce) {
  ControlServer server = open_server();
  Recorder recorder(25);
  Assignment assignment;
  assignment.seed = 99;
  server.serve(assignment, {0, 3}, recorder);
  std::vector<std::future<std::vector<std::int64_t>>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      auto channel = WorkerChannel::join(server.address(), rank, hello());
      EXPECT_TRUE(channel);
      EXPECT_EQ(channel->assignment(), assignment);
      channel->listen([](const std::string&) {});
      return work_off(*channel);
    }));
  std::set<std::int64_t> answered;
  for (auto& rank : ranks)
    for (const std::int64_t index : rank.get()) EXPECT_TRUE(answered.insert(index).second) << index;
  EXPECT_TRUE(server.finish());
  EXPECT_EQ(answered.size(), 25u);
  EXPECT_EQ(recorder.all<Hello>().size(), 3u);
  EXPECT_EQ(recorder.all<TaskResult>().size(), 25u);
  EXPECT_EQ(recorder.all<Done>().size(), 3u);
  ASSERT_EQ(recorder.left_ranks.size(), 3u);
  for (const auto& [rank, reason] : recorder.left_ranks) EXPECT_FALSE(reason) << rank;
}

// Gives three requests, and the next three only when those have their results.
class InThrees : public ControlListener {
 public:
  Result<void> on_event(const Event& event) override {
    if (std::holds_alternative<TaskResult>(event.body)) ++answered_;
    return {};
  }
  Result<NextRequest> next_request(int) override {
    if (given_ == 9) return NextRequest(EndOfRequests{});
    if (given_ == answered_ + 3 || (given_ % 3 == 0 && given_ != answered_)) return NextRequest(NotYet{});
    return NextRequest(Request{given_++, "{}"});
  }

 private:
  std::int64_t given_ = 0, answered_ = 0;
};

TEST(Channel, ARankThatGathersABatchBeginsWithWhatThereIsWhenNoMoreComesForNow) {
  ControlServer server = open_server();
  InThrees listener;
  server.serve({}, {0, 1}, listener);
  auto channel = WorkerChannel::join(server.address(), 0, hello());
  ASSERT_TRUE(channel);
  channel->listen([](const std::string&) {});
  std::vector<std::size_t> sizes;
  std::set<std::int64_t> seen;
  while (true) {
    const auto batch = channel->gather(8);
    if (batch.empty()) break;
    sizes.push_back(batch.size());
    for (const Request& request : batch) {
      EXPECT_TRUE(seen.insert(request.index).second);
      channel->tell(TaskResult{request.index, "{}"});
    }
  }
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 3, 3}));
  channel->tell(Done{});
  { const WorkerChannel gone = std::move(*channel); }
  EXPECT_TRUE(server.finish());
}

TEST(Channel, TheFolderOfTheSocketIsThisUsersAloneAndGoesWithTheServer) {
  std::filesystem::path folder;
  {
    const ControlServer server = open_server();
    folder = server.folder();
    struct stat facts {};
    ASSERT_EQ(::stat(folder.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777u, 0700u);
    EXPECT_EQ(server.address().parent_path(), folder);
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(Channel, ARankThatEndsWithoutAWordIsToldWithTheReason) {
  ControlServer server = open_server();
  Recorder recorder;
  server.serve({}, {0, 1}, recorder);
  { ASSERT_TRUE(WorkerChannel::join(server.address(), 0, hello())); }
  EXPECT_TRUE(server.finish());
  ASSERT_EQ(recorder.left_ranks.size(), 1u);
  EXPECT_TRUE(recorder.left_ranks.front().second);
}

TEST(Channel, ARankThatIsOfNoUseWithoutAnotherIsLetGoWithIt) {
  ControlServer server = open_server();
  Recorder recorder;
  recorder.useless_then = 1;
  server.serve({}, {0, 3}, recorder);
  std::optional<WorkerChannel> first = *WorkerChannel::join(server.address(), 0, hello());
  std::optional<WorkerChannel> second = *WorkerChannel::join(server.address(), 1, hello());
  std::optional<WorkerChannel> third = *WorkerChannel::join(server.address(), 2, hello());
  std::promise<void> ended;
  std::atomic<bool> third_ended = false;
  second->listen([&](const std::string&) { ended.set_value(); });
  third->listen([&](const std::string&) { third_ended = true; });
  first.reset();
  EXPECT_EQ(ended.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_FALSE(third_ended);
  third->tell(Done{});
  third.reset();
  EXPECT_TRUE(server.finish());
  ASSERT_EQ(recorder.left_ranks.size(), 3u);
  EXPECT_EQ(recorder.left_ranks[1].first, 1);
}

TEST(Channel, ARankHearsAtOnceThatTheControllingProgramIsGone) {
  std::promise<std::string> heard;
  std::optional<WorkerChannel> channel;
  {
    ControlServer server = open_server();
    Recorder recorder;
    recorder.refuse_results = true;  // the server closes every connection then
    server.serve({}, {0, 1}, recorder);
    channel = *WorkerChannel::join(server.address(), 0, hello());
    channel->listen([&](const std::string& reason) { heard.set_value(reason); });
    channel->want(1);
    EXPECT_FALSE(channel->next_request());
    channel->tell(TaskResult{});
    EXPECT_FALSE(heard.get_future().get().empty());
    const auto finished = server.finish();
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().what, "the disk is full");
  }
}

TEST(Channel, ARequestThatIsNotThereYetComesWhenTheInputIsReady) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const FileDescriptor reading(ends[0]), writing(ends[1]);
  ControlServer server = open_server();
  Recorder recorder(1);
  recorder.held_back = true;
  recorder.input_descriptor = reading.number();
  server.serve({}, {0, 1}, recorder);
  std::optional<WorkerChannel> channel = *WorkerChannel::join(server.address(), 0, hello());
  channel->listen([](const std::string&) {});
  channel->want(1);
  bool ended = true;
  EXPECT_FALSE(channel->take_request(ended));
  EXPECT_FALSE(ended);
  recorder.held_back = false;
  ASSERT_EQ(::write(writing.number(), "x", 1), 1);
  const auto request = channel->next_request();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->index, 0);
  channel->tell(Done{});
  channel.reset();
  EXPECT_TRUE(server.finish());
}

TEST(Channel, AWorkerOfAnotherVersionEndsTheJobWithBothVersionsNamed) {
  ControlServer server = open_server();
  Recorder recorder;
  server.serve({}, {0, 1}, recorder);
  Hello other = hello();
  other.version = protocol_version + 1;
  EXPECT_FALSE(WorkerChannel::join(server.address(), 0, other));
  const auto finished = server.finish();
  ASSERT_FALSE(finished);
  EXPECT_NE(finished.error().what.find("version 2"), std::string::npos) << finished.error().what;
}

TEST(Channel, NonsenseTwoOfOneRankAndARankTooManyEndTheJob) {
  for (const char* line : {"nonsense", R"({"time":1,"event":"done","rank":0})",
                           R"({"time":1,"event":"hello","rank":7,"version":1,"pid":1,"program":""})"}) {
    ControlServer server = open_server();
    Recorder recorder;
    server.serve({}, {0, 1}, recorder);
    auto socket = connect_at(server.address());
    ASSERT_TRUE(socket);
    LineConnection connection(std::move(*socket));
    connection.send(line);
    while (!connection.broken()) connection.receive();
    EXPECT_FALSE(server.finish()) << line;
  }
  ControlServer server = open_server();
  Recorder recorder;
  server.serve({}, {0, 2}, recorder);
  const auto first = WorkerChannel::join(server.address(), 1, hello());
  EXPECT_TRUE(first);
  EXPECT_FALSE(WorkerChannel::join(server.address(), 1, hello()));
  EXPECT_FALSE(server.finish());
}

TEST(Channel, AnExceptionOfTheListenerIsThrownByFinish) {
  struct Thrower : ControlListener {
    Result<void> on_event(const Event&) override { throw std::logic_error("a bug"); }
  } thrower;
  ControlServer server = open_server();
  server.serve({}, {0, 1}, thrower);
  const auto channel = WorkerChannel::join(server.address(), 0, hello());
  EXPECT_THROW(static_cast<void>(server.finish()), std::logic_error);
}

}  // namespace
}  // namespace muster::wire

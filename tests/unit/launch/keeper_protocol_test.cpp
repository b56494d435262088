#include "launch/keeper/keeper_protocol.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <stdexcept>

#include "observed_keeper.hpp"

namespace muster::launch {
namespace {

std::pair<KeeperConnection, KeeperConnection> open_pair() {
  auto ends = KeeperConnection::open_pair();
  if (!ends) throw std::runtime_error(ends.error().what);
  return std::move(*ends);
}

// What the other end gets of one message, however long.
std::vector<ReceivedMessage> carry(KeeperConnection& from, KeeperConnection& to) {
  std::vector<ReceivedMessage> received;
  while (true) {
    const bool all_sent = from.send_some();
    for (ReceivedMessage& message : to.receive()) received.push_back(std::move(message));
    if (all_sent) return received;
  }
}

bool is_same_file(int first, int second) {
  struct stat one {
  }, other{};
  return ::fstat(first, &one) == 0 && ::fstat(second, &other) == 0 && one.st_ino == other.st_ino;
}

TEST(KeeperProtocol, CarriesAnOrderToStartWithItsDescriptors) {
  auto [launcher, keeper] = open_pair();
  const Lines output, errors;
  const WorkerCommand command{{"program", "", "an argument\n"},
                              {{"EMPTY", ""}, {"LARGE", std::string(1'000'000, 'x')}, {"BYTES", "\xff\x01="}},
                              output.writer(),
                              errors.writer(),
                              {0, 300}};
  launcher.queue(encode(command, 7), {command.output, command.errors});
  launcher.queue(encode(SignalWorkers{3, SIGTERM}));
  std::vector<ReceivedMessage> messages = carry(launcher, keeper);
  ASSERT_EQ(messages.size(), 2U);
  const KeeperOrder order = decode_order(std::move(messages[0]));
  const auto& start = std::get<StartWorker>(order);
  EXPECT_EQ(start.local_rank, 7);
  EXPECT_EQ(start.command, command.command);
  EXPECT_EQ(start.environment,
            (std::vector<std::string>{"EMPTY=", "LARGE=" + std::string(1'000'000, 'x'), "BYTES=\xff\x01="}));
  EXPECT_EQ(start.cpus, command.cpus);
  EXPECT_TRUE(is_same_file(start.output.number(), output.writer()));
  EXPECT_TRUE(is_same_file(start.errors.number(), errors.writer()));
  EXPECT_EQ(::fcntl(start.output.number(), F_GETFD), FD_CLOEXEC);
}

TEST(KeeperProtocol, CarriesTheOtherOrders) {
  const auto of_one = std::get<SignalWorkers>(decode_order({encode(SignalWorkers{3, SIGTERM}), {}}));
  EXPECT_EQ(of_one.local_rank, 3);
  EXPECT_EQ(of_one.signal, SIGTERM);
  EXPECT_EQ(std::get<SignalWorkers>(decode_order({encode(SignalWorkers{{}, SIGINT}), {}})).local_rank, std::nullopt);
  const EndAll end{std::chrono::milliseconds(30'000)};
  EXPECT_EQ(std::get<EndAll>(decode_order({encode(end), {}})).grace, end.grace);
}

TEST(KeeperProtocol, CarriesEvents) {
  const auto back = [](const KeeperEvent& event) { return decode_event({encode(event), {}}); };
  EXPECT_EQ(std::get<WorkerStarted>(back(WorkerStarted{2, 4711})).pid, 4711);
  EXPECT_EQ(std::get<WorkerNotStarted>(back(WorkerNotStarted{2, "why"})).reason, "why");
  EXPECT_EQ(std::get<AllGone>(back(AllGone{5})).killed, 5);
  const WorkerExited exit{3, 4711, {std::nullopt, SIGSEGV, false}, std::chrono::system_clock::now()};
  const auto told = std::get<WorkerExited>(back(exit));
  EXPECT_EQ(told.local_rank, 3);
  EXPECT_EQ(told.pid, 4711);
  EXPECT_EQ(told.end, exit.end);
  EXPECT_EQ(told.time, exit.time);
}

TEST(KeeperProtocol, ThrowsAtAMessageThatIsCutShort) {
  const std::string whole = encode(KeeperEvent(WorkerNotStarted{2, "why"}));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(decode_event({whole.substr(0, size), {}}), std::logic_error) << size;
  EXPECT_THROW(decode_event({encode(EndAll{}), {}}), std::logic_error);
  EXPECT_THROW(decode_order({whole, {}}), std::logic_error);
}

TEST(KeeperConnection, SeesThatTheOtherEndIsGoneAfterWhatItSaid) {
  auto [launcher, keeper] = open_pair();
  keeper.queue("last words");
  ASSERT_TRUE(keeper.send_some());
  keeper.close();
  const auto messages = launcher.receive();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].body, "last words");
  EXPECT_TRUE(launcher.ended());
  launcher.queue("heard by nobody");
  EXPECT_FALSE(launcher.send_all());
}

// Descriptors that find no room are missing in their own message, and no other message gets them.
TEST(KeeperConnection, GivesNoMessageTheDescriptorsOfAnother) {
  auto [launcher, keeper] = open_pair();
  const Lines first, second;
  launcher.queue("first", {first.writer(), first.writer()});
  ASSERT_TRUE(launcher.send_some());
  std::vector<FileDescriptor> fill;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{64, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  while (FileDescriptor one{::dup(0)}) fill.push_back(std::move(one));
  const auto without_room = keeper.receive();
  fill.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
  launcher.queue("second", {second.writer(), second.writer()});
  ASSERT_TRUE(launcher.send_some());
  const auto with_room = keeper.receive();
  ASSERT_EQ(without_room.size(), 1U);
  ASSERT_EQ(without_room[0].descriptors.size(), 2U);
  EXPECT_FALSE(without_room[0].descriptors[0]);
  ASSERT_EQ(with_room.size(), 1U);
  ASSERT_EQ(with_room[0].descriptors.size(), 2U);
  EXPECT_TRUE(is_same_file(with_room[0].descriptors[0].number(), second.writer()));
}

}  // namespace
}  // namespace muster::launch

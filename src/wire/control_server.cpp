#include "wire/control_server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "system/files.hpp"
#include "system/line_connection.hpp"
#include "wire/unix_socket.hpp"

namespace muster::wire {
namespace {

using Clock = std::chrono::steady_clock;

// When the ranks have ended, so have their connections; a process that still holds one open is not waited for.
constexpr std::chrono::seconds longest_farewell(5);

struct Rank {
  explicit Rank(FileDescriptor socket) : line(std::move(socket)) {}
  LineConnection line;
  std::optional<int> rank;  // absent until it has said hello
  int wanted = 0;           // requests it can take
  bool not_yet = false;     // the listener had none for it, and nothing has happened since that could change it
  bool told_pause = false;  // and it has been notified
  bool told_end = false;
  bool settled = false;  // it said done or failed
};

}  // namespace

struct ControlServer::State {
  PrivateFolder folder;
  std::filesystem::path address;
  FileDescriptor listening;
  FileDescriptor wake_up;  // readable: finish() was called

  Assignment assignment;
  RankRange ranks;
  ControlListener* listener = nullptr;
  std::vector<std::unique_ptr<Rank>> connections;
  std::optional<Error> failed;
  std::exception_ptr thrown;
  std::jthread thread;

  State(PrivateFolder made, FileDescriptor socket, FileDescriptor wake)
      : folder(std::move(made)),
        address(folder.path() / "control"),
        listening(std::move(socket)),
        wake_up(std::move(wake)) {}

  void run(const std::stop_token& stop);
  void wait(std::chrono::milliseconds longest);
  void accept_new();
  void hear(Rank& rank);
  Result<void> take(Rank& rank, const std::string& line);
  Result<void> greet(Rank& rank, const Event& event);
  Result<void> give_requests(Rank& rank);
  void give_all();
  void let_go_of_broken();
  void ask_again();
  void fail(const Error& error);
};

void ControlServer::State::fail(const Error& error) {
  if (!failed) failed = error;
  connections.clear();
  listening = FileDescriptor();
}

void ControlServer::State::accept_new() {
  while (listening) {
    FileDescriptor socket(::accept4(listening.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    connections.push_back(std::make_unique<Rank>(std::move(socket)));
  }
}

Result<void> ControlServer::State::greet(Rank& rank, const Event& event) {
  const auto* hello = std::get_if<Hello>(&event.body);
  if (hello == nullptr)
    return Error{Error::Kind::failed, fmt::format("rank {} said something before its hello", event.rank), ""};
  if (hello->version != protocol_version)
    return Error{Error::Kind::failed,
                 fmt::format("{} speaks version {} of the protocol, and this muster speaks version {}", hello->program,
                             hello->version, protocol_version),
                 "use muster and muster-worker of the same build: ./muster builds both"};
  const bool taken = std::ranges::any_of(connections, [&](const auto& other) { return other->rank == event.rank; });
  if (event.rank < ranks.first || event.rank >= ranks.first + ranks.count || taken)
    return Error{Error::Kind::failed,
                 fmt::format("a worker says that it is rank {} {}", event.rank,
                             taken ? "when there is one" : fmt::format("of {} from {} on", ranks.count, ranks.first)),
                 ""};
  rank.rank = event.rank;
  rank.line.send(print(assignment));
  return {};
}

Result<void> ControlServer::State::take(Rank& rank, const std::string& line) {
  const auto event = parse_event(line);
  if (!event) return event.error();
  if (!rank.rank) {
    if (auto greeted = greet(rank, *event); !greeted) return greeted;
  } else if (event->rank != *rank.rank) {
    return Error{Error::Kind::failed, fmt::format("rank {} says that it is rank {}", *rank.rank, event->rank), ""};
  }
  if (const auto* want = std::get_if<Want>(&event->body)) {
    rank.wanted += std::clamp(want->count, 0, 1 << 20);
    rank.told_end = rank.told_pause = rank.not_yet = false;
  }
  if (std::holds_alternative<Done>(event->body) || std::holds_alternative<Failed>(event->body)) rank.settled = true;
  if (std::holds_alternative<TaskResult>(event->body)) ask_again();
  return listener->on_event(*event);
}

// A request that was not available before may be available now.
void ControlServer::State::ask_again() {
  for (const auto& rank : connections) rank->not_yet = false;
}

Result<void> ControlServer::State::give_requests(Rank& rank) {
  while (rank.wanted > 0 && !rank.told_end && !rank.not_yet) {
    auto next = listener->next_request(*rank.rank);
    if (!next) return next.error();
    if (const auto* request = std::get_if<Request>(&*next)) {
      rank.line.send(print(Order(*request)));
      --rank.wanted;
      rank.told_pause = false;
    } else if (const auto* cancel = std::get_if<Cancel>(&*next)) {
      rank.line.send(print(Order(*cancel)));
    } else if (std::holds_alternative<EndOfRequests>(*next)) {
      rank.line.send(print(Order(EndOfRequests{})));
      rank.told_end = true;
      rank.wanted = 0;
    } else {
      rank.not_yet = true;
      if (!std::exchange(rank.told_pause, true)) rank.line.send(print(Order(Pause{})));
    }
  }
  return {};
}

// After everything was read, so that what one rank said counts for all.
void ControlServer::State::give_all() {
  for (std::size_t position = 0; position < connections.size(); ++position) {
    Rank& rank = *connections[position];
    if (rank.line.broken() || !rank.rank) continue;
    if (auto given = give_requests(rank); !given) return fail(given.error());
  }
}

void ControlServer::State::hear(Rank& rank) {
  for (const std::string& line : rank.line.receive())
    if (auto taken = take(rank, line); !taken) return fail(taken.error());
}

void ControlServer::State::let_go_of_broken() {
  const auto has_left = [&](const std::unique_ptr<Rank>& rank) {
    return rank->line.broken() || (rank->rank && listener->is_stranded(*rank->rank));
  };
  for (auto found = std::ranges::find_if(connections, has_left); found != connections.end();
       found = std::ranges::find_if(connections, has_left)) {
    const auto gone = std::move(*found);
    connections.erase(found);
    if (!gone->rank) continue;
    ask_again();
    if (auto told = listener->rank_left(*gone->rank, gone->settled ? std::nullopt : gone->line.broken()); !told)
      fail(told.error());
  }
}

void ControlServer::State::wait(std::chrono::milliseconds longest) {
  std::vector<pollfd> waiting{{listening.number(), POLLIN, 0}, {wake_up.number(), POLLIN, 0}};
  const bool idle = std::ranges::any_of(connections, [](const auto& rank) { return rank->not_yet; });
  const auto input = idle ? listener->input() : std::nullopt;
  waiting.push_back({input.value_or(-1), POLLIN, 0});
  for (const auto& rank : connections)
    waiting.push_back(
        {rank->line.descriptor(), static_cast<short>(rank->line.wants_to_write() ? POLLIN | POLLOUT : POLLIN), 0});
  ::poll(waiting.data(), waiting.size(), static_cast<int>(longest.count()));
  eventfd_t ignored = 0;
  ::eventfd_read(wake_up.number(), &ignored);
  if (waiting[2].revents != 0) ask_again();
}

void ControlServer::State::run(const std::stop_token& stop) {
  std::optional<Clock::time_point> farewell;
  while (true) {
    if (stop.stop_requested() && !farewell) farewell = Clock::now() + longest_farewell;
    accept_new();
    for (std::size_t position = 0; position < connections.size(); ++position) hear(*connections[position]);
    let_go_of_broken();
    give_all();
    const auto deadline = connections.empty() ? std::nullopt : listener->deadline();
    if (deadline && Clock::now() >= *deadline) fail(listener->deadline_passed());
    if (farewell && (connections.empty() || Clock::now() >= *farewell)) return;
    wait(farewell   ? std::chrono::milliseconds(20)
         : deadline ? std::chrono::ceil<std::chrono::milliseconds>(std::clamp<Clock::duration>(
                          *deadline - Clock::now(), Clock::duration(0), std::chrono::hours(1)))
                    : std::chrono::hours(1));
  }
}

Result<ControlServer> ControlServer::open() {
  auto folder = PrivateFolder::create();
  if (!folder) return folder.error();
  auto listening = listen_at(folder->path() / "control");
  if (!listening) return listening.error();
  FileDescriptor wake_up(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_up) return Error{Error::Kind::failed, fmt::format("cannot make an event: {}", system_reason()), ""};
  return ControlServer(std::make_unique<State>(std::move(*folder), std::move(*listening), std::move(wake_up)));
}

ControlServer::ControlServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
ControlServer::ControlServer(ControlServer&&) noexcept = default;
ControlServer& ControlServer::operator=(ControlServer&&) noexcept = default;
ControlServer::~ControlServer() {
  if (state_ && state_->thread.joinable()) static_cast<void>(finish());
}

const std::filesystem::path& ControlServer::address() const { return state_->address; }
const std::filesystem::path& ControlServer::folder() const { return state_->folder.path(); }

void ControlServer::serve(const Assignment& assignment, RankRange ranks, ControlListener& listener) {
  state_->assignment = assignment;
  state_->ranks = ranks;
  state_->listener = &listener;
  state_->thread = std::jthread([state = state_.get()](const std::stop_token& stop) {
    try {
      state->run(stop);
    } catch (...) {
      state->thrown = std::current_exception();
      state->fail({});
    }
  });
}

Result<void> ControlServer::finish() {
  if (state_->thread.joinable()) {
    state_->thread.request_stop();
    ::eventfd_write(state_->wake_up.number(), 1);
    state_->thread.join();
  }
  if (state_->thrown) std::rethrow_exception(std::exchange(state_->thrown, nullptr));
  if (state_->failed) return *state_->failed;
  return {};
}

}  // namespace muster::wire

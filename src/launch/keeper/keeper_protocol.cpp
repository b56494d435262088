#include "launch/keeper/keeper_protocol.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace muster::launch {
namespace {

enum class Kind : std::int64_t {
  start_worker,
  signal_workers,
  end_all,
  worker_started,
  worker_not_started,
  worker_exited,
  all_gone
};

class MessageWriter {
 public:
  explicit MessageWriter(Kind kind) { number(static_cast<std::int64_t>(kind)); }
  MessageWriter& number(std::int64_t value) {
    std::array<char, sizeof value> bytes;
    std::memcpy(bytes.data(), &value, sizeof value);
    bytes_.append(bytes.data(), bytes.size());
    return *this;
  }
  MessageWriter& number(const std::optional<int>& value) { return number(value ? 1 : 0).number(value.value_or(0)); }
  MessageWriter& text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  std::string bytes() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}
  Kind kind() { return static_cast<Kind>(number()); }
  std::int64_t number() {
    std::int64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  int small_number() { return static_cast<int>(number()); }
  std::optional<int> optional_number() {
    const bool there = number() != 0;
    const int value = small_number();
    return there ? std::optional(value) : std::nullopt;
  }
  std::string text() {
    const std::int64_t size = number();
    return std::string(take(static_cast<std::size_t>(size)));
  }
  std::vector<std::string> texts() {
    std::vector<std::string> all(static_cast<std::size_t>(number()));
    for (std::string& one : all) one = text();
    return all;
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) throw std::logic_error("a message of the keeper ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view rest_;
};

StartWorker read_start(MessageReader& reader, std::vector<FileDescriptor> descriptors) {
  StartWorker order;
  order.local_rank = reader.small_number();
  order.command = reader.texts();
  order.environment = reader.texts();
  order.cpus.resize(static_cast<std::size_t>(reader.number()));
  for (int& cpu : order.cpus) cpu = reader.small_number();
  descriptors.resize(KeeperConnection::most_descriptors);
  order.output = above_standard_streams(std::move(descriptors[0]));
  order.errors = above_standard_streams(std::move(descriptors[1]));
  return order;
}

WorkerExited read_exit(MessageReader& reader) {
  WorkerExited event;
  event.local_rank = reader.small_number();
  event.pid = reader.small_number();
  event.end.exit_code = reader.optional_number();
  event.end.signal = reader.optional_number();
  event.time = std::chrono::system_clock::time_point(std::chrono::system_clock::duration(reader.number()));
  event.signalled = reader.number() != 0;
  return event;
}

struct EventWriter {
  std::string operator()(const WorkerStarted& event) const {
    return MessageWriter(Kind::worker_started).number(event.local_rank).number(event.pid).bytes();
  }
  std::string operator()(const WorkerNotStarted& event) const {
    return MessageWriter(Kind::worker_not_started).number(event.local_rank).text(event.reason).bytes();
  }
  std::string operator()(const WorkerExited& event) const {
    return MessageWriter(Kind::worker_exited)
        .number(event.local_rank)
        .number(event.pid)
        .number(event.end.exit_code)
        .number(event.end.signal)
        .number(event.time.time_since_epoch().count())
        .number(event.signalled ? 1 : 0)
        .bytes();
  }
  std::string operator()(const AllGone& event) const { return MessageWriter(Kind::all_gone).number(event.killed).bytes(); }
  std::string operator()(const KeeperLost&) const { throw std::logic_error("a lost keeper tells nothing"); }
};

}  // namespace

std::string encode(const WorkerCommand& worker, int local_rank) {
  MessageWriter writer(Kind::start_worker);
  writer.number(local_rank).number(std::ssize(worker.command));
  for (const std::string& argument : worker.command) writer.text(argument);
  writer.number(std::ssize(worker.environment));
  for (const auto& [name, value] : worker.environment) writer.text(name + "=" + value);
  writer.number(std::ssize(worker.cpus));
  for (const int cpu : worker.cpus) writer.number(cpu);
  return writer.bytes();
}

std::string encode(const SignalWorkers& order) {
  return MessageWriter(Kind::signal_workers).number(order.local_rank).number(order.signal).bytes();
}

std::string encode(const EndAll& order) { return MessageWriter(Kind::end_all).number(order.grace.count()).bytes(); }

KeeperOrder decode_order(ReceivedMessage message) {
  MessageReader reader(message.body);
  switch (reader.kind()) {
    case Kind::start_worker:
      return read_start(reader, std::move(message.descriptors));
    case Kind::signal_workers: {
      const std::optional<int> local_rank = reader.optional_number();
      return SignalWorkers{local_rank, reader.small_number()};
    }
    case Kind::end_all:
      return EndAll{std::chrono::milliseconds(reader.number())};
    default:
      throw std::logic_error("not an order");
  }
}

std::string encode(const KeeperEvent& event) { return std::visit(EventWriter(), event); }

KeeperEvent decode_event(const ReceivedMessage& message) {
  MessageReader reader(message.body);
  switch (reader.kind()) {
    case Kind::worker_started: {
      const int local_rank = reader.small_number();
      return WorkerStarted{local_rank, reader.small_number()};
    }
    case Kind::worker_not_started: {
      const int local_rank = reader.small_number();
      return WorkerNotStarted{local_rank, reader.text()};
    }
    case Kind::worker_exited:
      return read_exit(reader);
    case Kind::all_gone:
      return AllGone{reader.small_number()};
    default:
      throw std::logic_error("not an event");
  }
}

}  // namespace muster::launch

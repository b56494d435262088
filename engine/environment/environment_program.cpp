#include "environment/environment_program.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/duration.hpp"
#include "base/one_line.hpp"
#include "base/text.hpp"
#include "json/fields.hpp"
#include "system/signals.hpp"

namespace muster::environment {
namespace {

constexpr std::size_t longest_line = std::size_t{16} << 20;
constexpr const char* lines_remedy =
    R"(it must answer each line {"id": …, …} by one line with the same "id" (docs/environments.md); whatever else it has to say )"
    "belongs on its standard error";

std::string line_of(const nlohmann::ordered_json& message) {
  return message.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

EnvironmentProgram::EnvironmentProgram(Options options, Report report)
    : options_(std::move(options)), report_(std::move(report)), call_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

EnvironmentProgram::~EnvironmentProgram() {
  stopped_ = true;
  wake();
  if (worker_.joinable()) worker_.join();
}

void EnvironmentProgram::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(call_.number(), &one, sizeof one));
}

EnvironmentProgram::Heard EnvironmentProgram::ask(Json request, std::optional<Start> start) {
  std::future<Heard> heard;
  {
    const std::scoped_lock lock(mutex_);
    if (final_) return *final_;
    if (!worker_.joinable()) {
      const BlockedSignals none_for_the_worker;
      worker_ = std::thread([this] { work(); });
    }
    if (start && (!runs_ || *start != start_)) return Lost{"was started again", ""};
    const std::int64_t id = next_id_++;
    Json message{{"id", id}};
    message.update(request);
    Asked& asked = asked_[id];
    asked.deadline = Clock::now() + options_.patience;
    heard = asked.heard.get_future();
    outgoing_ += line_of(message);
  }
  wake();
  return heard.get();
}

void EnvironmentProgram::tell(Json message, Start start) {
  {
    const std::scoped_lock lock(mutex_);
    if (!runs_ || start != start_) return;
    outgoing_ += line_of(message);
  }
  wake();
}

void EnvironmentProgram::wait_for_call() const {
  pollfd waiting{call_.number(), POLLIN, 0};
  ::poll(&waiting, 1, -1);
  std::uint64_t count = 0;
  static_cast<void>(!::read(call_.number(), &count, sizeof count));
}

void EnvironmentProgram::work() {
  std::string unsent;
  while (!stopped_) {
    start_if_needed();
    if (!program_) {
      wait_for_call();
    } else if (auto lost = converse(unsent)) {
      program_->kill();
      program_.reset();
      unsent.clear();
      lose(std::move(*lost));
    }
  }
  program_.reset();
}

void EnvironmentProgram::start_if_needed() {
  if (program_) return;
  {
    const std::scoped_lock lock(mutex_);
    if (asked_.empty()) return;
  }
  auto started = Coprocess::start(options_.command, options_.name, longest_line);
  const bool is_there = bool(started);
  if (is_there) program_.emplace(std::move(*started));
  {
    const std::scoped_lock lock(mutex_);
    runs_ = is_there;
    start_ += is_there ? 1 : 0;
  }
  if (!is_there) lose({"cannot be started: " + started.error().what, started.error().remedy});
}

std::optional<EnvironmentProgram::Lost> EnvironmentProgram::converse(std::string& unsent) {
  Clock::time_point deadline = Clock::now() + std::chrono::hours(1);
  {
    const std::scoped_lock lock(mutex_);
    unsent += std::exchange(outgoing_, {});
    for (const auto& [id, asked] : asked_) deadline = std::min(deadline, asked.deadline);
  }
  auto heard = program_->converse(unsent, deadline, {}, call_);
  if (!heard) return Lost{"wrote more than 16 MiB without a line's end", lines_remedy};
  if (std::holds_alternative<Coprocess::Called>(*heard)) {
    wait_for_call();
    return std::nullopt;
  }
  if (std::holds_alternative<Coprocess::NoMoreOutput>(*heard)) return gone();
  if (std::holds_alternative<Coprocess::Late>(*heard)) {
    const std::scoped_lock lock(mutex_);
    return asked_.empty() ? std::nullopt : std::optional(late());
  }
  return take(std::get<std::string>(*heard));
}

std::optional<EnvironmentProgram::Lost> EnvironmentProgram::take(const std::string& line) {
  const auto wrong = [&](const std::string& what) { return Lost{what, lines_remedy}; };
  if (trim(line).empty()) return std::nullopt;
  auto json = parse_ordered_json_object(line, "its line");
  if (!json) return wrong(fmt::format("wrote what is not a JSON object: {}", on_one_line(line, 120)));
  const auto id = json->find("id");
  std::int64_t number = 0;
  if (id == json->end() || read_json(*id, number))
    return wrong(fmt::format("wrote a line without the id of a request: {}", on_one_line(line, 120)));
  const std::scoped_lock lock(mutex_);
  const auto found = asked_.find(number);
  if (found == asked_.end())
    return wrong(fmt::format("answered the id {}, which it was not asked about, or a second time", number));
  losses_ = 0;
  found->second.heard.set_value(Answer{std::move(*json), start_});
  asked_.erase(found);
  return std::nullopt;
}

// Everybody who waits is told, and may ask again.
void EnvironmentProgram::lose(Lost why) {
  std::map<std::int64_t, Asked> lost;
  bool is_told = false;
  {
    const std::scoped_lock lock(mutex_);
    runs_ = false;
    outgoing_.clear();
    lost = std::exchange(asked_, {});
    why.is_final = ++losses_ > options_.restarts;
    is_told = !lost.empty();
    if (why.is_final) {
      why.what += losses_ == 1 ? "; it was started once"
                               : fmt::format("; it was started {} times without an answer between", losses_);
      final_ = why;
    }
  }
  if (is_told && !why.is_final)
    report_(fmt::format("the environment {} {}; it is started again", options_.name, why.what));
  for (auto& [id, asked] : lost) asked.heard.set_value(why);
}

EnvironmentProgram::Lost EnvironmentProgram::late() const {
  return {fmt::format("gave no answer within {}", to_string(options_.patience)),
          "let it answer without holding lines back (in Python print(…, flush=True)), or give it more time: "
          "environment.program_seconds"};
}

EnvironmentProgram::Lost EnvironmentProgram::gone() const {
  if (const auto end = program_->wait_for_end(std::chrono::milliseconds(3000)))
    return {fmt::format("ended ({})", describe(*end, options_.patience)),
            "its standard error says why; let it read lines until its input ends"};
  return {"closed its standard output", "let it keep its output open until its input ends"};
}

}  // namespace muster::environment

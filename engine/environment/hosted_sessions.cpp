#include "environment/hosted_sessions.hpp"

#include <fmt/format.h>

#include <random>

namespace muster::environment {
namespace {

// Sessions that are gone and still explained.
constexpr std::size_t most_remembered = 65'536;

// A random UUID. The device is the kernel's source of secrets.
std::string new_id() {
  std::random_device device;
  const auto word = [&] { return static_cast<std::uint32_t>(device()); };
  const std::uint32_t a = word(), b = word(), c = word(), d = word();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{:08x}", a, b >> 16, b & 0xfff, 0x8000 | (c >> 18), c & 0xffff,
                     d);
}

}  // namespace

HostedSessions::HostedSessions(std::size_t most, std::chrono::milliseconds patience, Now now)
    : most_(most), patience_(patience), now_(std::move(now)) {}

HostedSessions::Place::~Place() {
  const std::scoped_lock lock(sessions_.mutex_);
  --sessions_.reserved_;
}

std::unique_ptr<HostedSessions::Place> HostedSessions::reserve() {
  remove_expired();
  const std::scoped_lock lock(mutex_);
  if (entries_.size() + reserved_ >= most_) return nullptr;
  ++reserved_;
  return std::make_unique<Place>(*this);
}

std::string HostedSessions::begin(std::unique_ptr<Place> place, std::string environment,
                                  std::unique_ptr<Session> session) {
  std::string id = new_id();
  {
    const std::scoped_lock lock(mutex_);
    entries_.emplace(id, Entry{std::move(environment), std::move(session), now_()});
  }
  place.reset();
  return id;
}

std::variant<std::unique_ptr<HostedSessions::Claim>, HostedSessions::Absence> HostedSessions::claim(
    const std::string& id) {
  remove_expired();
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    const auto gone = gone_.find(id);
    return gone == gone_.end() ? Absence::unknown : gone->second;
  }
  if (found->second.is_claimed) return Absence::busy;
  found->second.is_claimed = true;
  return std::make_unique<Claim>(*this, id, found->second);
}

HostedSessions::Claim::~Claim() {
  std::unique_ptr<Session> ended;  // which may take its time, outside the lock
  const std::scoped_lock lock(sessions_.mutex_);
  entry_.is_claimed = false;
  entry_.used = sessions_.now_();
  if (!is_over_) return;
  ended = std::move(entry_.session);
  sessions_.remember(id_, Absence::over);
  sessions_.entries_.erase(id_);
}

Step HostedSessions::Claim::step(const std::string& answer) {
  Step step = entry_.session->step(answer);
  ++entry_.turns;
  is_over_ = step.done;
  return step;
}

std::optional<double> HostedSessions::Claim::end_early() {
  is_over_ = true;
  return entry_.session->end_early();
}

void HostedSessions::remember(const std::string& id, Absence why) {
  gone_.insert_or_assign(id, why);
  gone_order_.push_back(id);
  if (gone_order_.size() <= most_remembered) return;
  gone_.erase(gone_order_.front());
  gone_order_.pop_front();
}

std::vector<std::unique_ptr<Session>> HostedSessions::take_expired() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::unique_ptr<Session>> taken;
  const auto now = now_();
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->second.is_claimed || now - entry->second.used < patience_) {
      ++entry;
      continue;
    }
    remember(entry->first, Absence::expired);
    taken.push_back(std::move(entry->second.session));
    entry = entries_.erase(entry);
  }
  return taken;
}

// Their ends may take time, in which others go on.
void HostedSessions::remove_expired() { take_expired().clear(); }

std::size_t HostedSessions::count() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

}  // namespace muster::environment

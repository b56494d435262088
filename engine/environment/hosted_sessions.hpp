// Sessions that others play from outside: each has an id that nobody guesses, they are bounded in number, and one that
// nobody steps for a while is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "environment/environment.hpp"

namespace muster::environment {

class HostedSessions {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  // most: that are kept at a time. patience: how long one is kept that is not stepped.
  HostedSessions(std::size_t most, std::chrono::milliseconds patience, Now now = Clock::now);

  // Room for a session that is about to begin.
  class Place;
  // Null: there are as many as there may be.
  std::unique_ptr<Place> reserve();
  // Its id. environment: its name, for whoever claims it.
  std::string begin(std::unique_ptr<Place> place, std::string environment, std::unique_ptr<Session> session);

  enum class Absence {
    unknown,  // no such session has begun, or it is long gone
    expired,  // nobody stepped it for longer than the patience
    over,     // its episode has ended
    busy,     // somebody else steps it
  };
  // One session that nobody else steps meanwhile.
  class Claim;
  std::variant<std::unique_ptr<Claim>, Absence> claim(const std::string& id);

  // Gives back what expired sessions hold.
  void remove_expired();
  std::size_t count() const;

 private:
  struct Entry {
    std::string environment;
    std::unique_ptr<Session> session;
    Clock::time_point used;
    std::int64_t turns = 0;
    bool is_claimed = false;
  };
  std::vector<std::unique_ptr<Session>> take_expired();
  void remember(const std::string& id, Absence why);

  const std::size_t most_;
  const std::chrono::milliseconds patience_;
  const Now now_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::size_t reserved_ = 0;
  std::map<std::string, Absence> gone_;  // the newest that are gone, to say why
  std::deque<std::string> gone_order_;
};

class HostedSessions::Place {
 public:
  explicit Place(HostedSessions& sessions) : sessions_(sessions) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place();

 private:
  HostedSessions& sessions_;
};

class HostedSessions::Claim {
 public:
  Claim(HostedSessions& sessions, std::string id, Entry& entry)
      : sessions_(sessions), id_(std::move(id)), entry_(entry) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  // It is anybody's again; one whose episode has ended is gone.
  ~Claim();

  const std::string& environment() const { return entry_.environment; }
  std::int64_t turns() const { return entry_.turns; }  // that have been stepped
  // The next step of it; its last one ends it.
  Step step(const std::string& answer);
  // It ends here: what it earns beside its steps' rewards.
  std::optional<double> end_early();

 private:
  HostedSessions& sessions_;
  std::string id_;
  Entry& entry_;
  bool is_over_ = false;
};

}  // namespace muster::environment

// The signals of a process around a fork or the start of a thread.
#pragma once

#include <signal.h>

namespace muster {

// No handler of ours may run in a child before it has its own: signals are blocked around the fork. A thread
// started while they are blocked never gets one.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// While it lives, writing where nobody reads is an error and nothing more.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    const timespec at_once = {};
    if (!was_pending_)
      while (::sigtimedwait(&pipe_, nullptr, &at_once) > 0) {
      }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

// Safe in the fork of a process with threads.
inline void give_every_signal_its_default_effect() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
}

// Safe in the fork of a process with threads.
inline void unblock_every_signal() {
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace muster

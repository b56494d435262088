// The signals that a login shell gives to a program, for every test program: what is ignored or blocked where tests are
// started (nohup, some CI runners) would be inherited by the programs that they start.
#include <gtest/gtest.h>
#include <signal.h>

namespace {

class UsualSignals : public testing::Environment {
 public:
  void SetUp() override {
    for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE, SIGTERM, SIGALRM, SIGCHLD}) ::signal(number, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
  }
};

[[maybe_unused]] const testing::Environment* const registered = testing::AddGlobalTestEnvironment(new UsualSignals);

}  // namespace

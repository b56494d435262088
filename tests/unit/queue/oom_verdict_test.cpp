#include "queue/oom_verdict.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace muster::queue {
namespace {

using schedule::HowEnded;

constexpr const char* cuda_words =
    "step 3\nTraceback (most recent call last):\n  File \"train.py\", line 1, in <module>\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";

TEST(MemoryEnd, IsToldByTheKernelsCountAndAKill) {
  const CommandEnd killed{HowEnded::killed, SIGKILL};
  EXPECT_EQ(with_memory_told(killed, true, ""), (CommandEnd{HowEnded::out_of_memory, 137}));
  EXPECT_EQ(with_memory_told(killed, false, ""), killed);
  EXPECT_EQ(with_memory_told({HowEnded::killed, SIGSEGV}, true, ""), (CommandEnd{HowEnded::killed, SIGSEGV}));
  EXPECT_EQ(with_memory_told({HowEnded::exited, 137}, true, ""), (CommandEnd{HowEnded::out_of_memory, 137}));
}

TEST(MemoryEnd, IsToldByWhatACommandSaidLast) {
  const CommandEnd exited{HowEnded::exited, 1};
  EXPECT_EQ(with_memory_told(exited, false, cuda_words), (CommandEnd{HowEnded::out_of_memory, 1}));
  EXPECT_EQ(with_memory_told(exited, false, "ValueError: no such file\n"), exited);
  EXPECT_EQ(with_memory_told(exited, true, "ValueError: no such file\n"), exited);
}

}  // namespace
}  // namespace muster::queue

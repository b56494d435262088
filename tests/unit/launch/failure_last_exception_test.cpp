#include <gtest/gtest.h>

#include "base/text.hpp"
#include "launch/last_exception.hpp"

namespace muster::launch {
namespace {

std::string exception_in(std::string_view text) { return last_exception(split(text, '\n')); }

TEST(LastException, StandsBelowTheTraceback) {
  EXPECT_EQ(exception_in("starting\n"
                         "Traceback (most recent call last):\n"
                         "  File \"train.py\", line 3, in <module>\n"
                         "    main()\n"
                         "    ^^^^^^\n"
                         "\n"
                         "mypackage.Trouble: went wrong"),
            "mypackage.Trouble: went wrong");
}

TEST(LastException, IsTheLastOfAChain) {
  EXPECT_EQ(exception_in("Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'\n\n"
                         "During handling of the above exception, another exception occurred:\n\n"
                         "Traceback (most recent call last):\n  File \"b\"\nValueError: y"),
            "ValueError: y");
}

TEST(LastException, IsSeenBehindTheRankThatTorchPutsBeforeIt) {
  EXPECT_EQ(exception_in("[rank3]: Traceback (most recent call last):\n"
                         "[rank3]:   File \"train.py\", line 3, in <module>\n"
                         "[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n"
                         "[rank3]:[W1114 22:13:20.1 ProcessGroupNCCL.cpp:1] Warning: NCCL error is not what this is"),
            "torch.OutOfMemoryError: CUDA out of memory.");
}

TEST(LastException, KeepsTheLinesOfItsText) {
  EXPECT_EQ(exception_in("Traceback (most recent call last):\n  File \"a\"\n"
                         "torch.distributed.DistBackendError: NCCL error in: x.cpp:1\n"
                         "ncclSystemError: System call failed.\nLast error:\nnone"),
            "torch.distributed.DistBackendError: NCCL error in: x.cpp:1\n"
            "ncclSystemError: System call failed.\nLast error:\nnone");
}

TEST(LastException, IsNotWhatDestructorsSayAfterIt) {
  EXPECT_EQ(exception_in("Traceback (most recent call last):\n  File \"a\"\nValueError: the cause\n"
                         "Exception ignored in: <function Pool.__del__>\n"
                         "Traceback (most recent call last):\n  File \"b\"\nAttributeError: an effect"),
            "ValueError: the cause");
}

TEST(LastException, IsFoundWithoutATraceback) {
  EXPECT_EQ(exception_in("  File \"train.py\", line 1\n    x =\n      ^\nSyntaxError: invalid syntax"),
            "SyntaxError: invalid syntax");
  EXPECT_EQ(exception_in("KeyboardInterrupt"), "KeyboardInterrupt");
}

TEST(LastException, IsWhatCppSaysOfOneThatNobodyCaught) {
  EXPECT_EQ(exception_in("terminate called after throwing an instance of 'c10::DistBackendError'\n"
                         "  what():  [PG 0] Watchdog caught collective operation timeout"),
            "[PG 0] Watchdog caught collective operation timeout");
  EXPECT_EQ(exception_in("terminate called without an active exception"),
            "terminate called without an active exception");
}

TEST(LastException, IsEmptyWhereThereIsNone) {
  EXPECT_EQ(exception_in(""), "");
  EXPECT_EQ(last_exception({}), "");
  EXPECT_EQ(exception_in("Loss: 3\nan Error: not a name\nTraceback (most recent call last):\n  File \"cut"), "");
}

}  // namespace
}  // namespace muster::launch

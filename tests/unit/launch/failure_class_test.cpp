#include <gtest/gtest.h>
#include <signal.h>

#include "base/text.hpp"
#include "launch/failure.hpp"
#include "testing/contains.hpp"

namespace muster::launch {
namespace {

using testing::contains;

WorkerFailure exited(int code, std::string_view last_lines = "") {
  WorkerFailure failure;
  failure.rank = 3;
  failure.end.exit_code = code;
  if (!last_lines.empty()) failure.last_lines = split(last_lines, '\n');
  return failure;
}

WorkerFailure signalled(int signal, std::string_view last_lines = "") {
  WorkerFailure failure = exited(0, last_lines);
  failure.end = {std::nullopt, signal, false};
  return failure;
}

WorkerFailure recorded(std::string message) {
  WorkerFailure failure = exited(1, "Traceback (most recent call last):\n  File\nValueError: not this");
  failure.error_file.emplace().message = std::move(message);
  return failure;
}

WorkerFailure classified(WorkerFailure failure) {
  classify(failure);
  return failure;
}

std::string raising(std::string_view exception) {
  return "Traceback (most recent call last):\n  File \"train.py\", line 3\n" + std::string(exception);
}

TEST(FailureKind, HasOneWordEach) {
  EXPECT_EQ(to_word(FailureKind::gpu_memory), "gpu_memory");
  EXPECT_EQ(to_word(FailureKind::not_started), "not_started");
}

TEST(Classify, TellsTheExitCodeWhenNothingMoreIsKnown) {
  const auto failure = classified(exited(7));
  EXPECT_EQ(failure.kind, FailureKind::exit_code);
  EXPECT_EQ(failure.explanation, "rank 3 ended with exit code 7");
}

TEST(Classify, TellsTheExceptionOrTheLastWords) {
  EXPECT_EQ(classified(exited(1, raising("ValueError: bad shape\nmore"))).explanation,
            "rank 3 ended with exit code 1: ValueError: bad shape");
  EXPECT_EQ(classified(exited(2, "usage: train.py\ntrain.py: error: no such option")).explanation,
            "rank 3 ended with exit code 2: train.py: error: no such option");
}

TEST(Classify, BelievesTheErrorFileBeforeTheLastLines) {
  EXPECT_EQ(classified(recorded("RuntimeError: boom\nsecond line")).explanation,
            "rank 3 ended with exit code 1: RuntimeError: boom");
  EXPECT_EQ(classified(recorded("OutOfMemoryError: CUDA out of memory.")).kind, FailureKind::gpu_memory);
}

TEST(Classify, KnowsFailuresByTheirWords) {
  const std::pair<const char*, FailureKind> cases[] = {
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", FailureKind::gpu_memory},
      {"torch.cuda.OutOfMemoryError: CUDA out of memory.", FailureKind::gpu_memory},
      {"RuntimeError: CUDA error: out of memory", FailureKind::gpu_memory},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
       FailureKind::gpu_memory},
      {"RuntimeError: CUDA driver error: CUDA_ERROR_OUT_OF_MEMORY", FailureKind::gpu_memory},
      {"torch.distributed.DistBackendError: NCCL error in: x.cpp:1\nLast error:\nCuda failure 2 'out of memory'",
       FailureKind::gpu_memory},
      {"MemoryError", FailureKind::host_memory},
      {"RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.",
       FailureKind::host_memory},
      {"OSError: [Errno 12] Cannot allocate memory", FailureKind::host_memory},
      {"ModuleNotFoundError: No module named 'flash_attn'", FailureKind::import_error},
      {"ImportError: libcudart.so.12: cannot open shared object file", FailureKind::import_error},
      {"torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited", FailureKind::communication},
      {"torch.distributed.DistNetworkError: The client socket has timed out", FailureKind::communication},
      {"torch.distributed.DistStoreError: Timed out after 11 seconds waiting for clients", FailureKind::communication},
      {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:3",
       FailureKind::communication},
      {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection reset by peer",
       FailureKind::communication},
      {"RuntimeError: Socket Timeout", FailureKind::communication},
      {"ConnectionResetError: [Errno 104] Connection reset by peer", FailureKind::exit_code},
      {"ValueError: bad shape", FailureKind::exit_code},
  };
  for (const auto& [exception, kind] : cases) {
    EXPECT_EQ(classified(exited(1, raising(exception))).kind, kind) << exception;
    EXPECT_EQ(classified(recorded(exception)).kind, kind) << exception;
  }
}

TEST(Classify, DoesNotBlameWhatWasSaidBeforeTheException) {
  const std::string before = "UserWarning: NCCL error, trying again\nImportError: no flash_attn, going on\n";
  EXPECT_EQ(classified(exited(1, before + raising("ValueError: bad shape"))).kind, FailureKind::exit_code);
}

TEST(Classify, ExplainsEachKindInASentenceWithTheRankAndTheFact) {
  EXPECT_EQ(classified(recorded("OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.")).explanation,
            "rank 3 ran out of GPU memory: OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.");
  EXPECT_TRUE(contains(classified(recorded("ModuleNotFoundError: No module named 'flash_attn'")).explanation,
                       "rank 3 could not import", "install it", "'flash_attn'"));
  EXPECT_TRUE(contains(classified(recorded("DistBackendError: NCCL error in x")).explanation,
                       "rank 3 lost the other ranks", "NCCL error in x"));
  EXPECT_TRUE(contains(classified(recorded("MemoryError: ")).explanation, "no more memory of the host"));
}

TEST(Classify, NamesTheSignalAndWhatItMostlyMeans) {
  const auto failure = classified(signalled(SIGSEGV));
  EXPECT_EQ(failure.kind, FailureKind::signal);
  EXPECT_EQ(failure.explanation, "rank 3 was ended by SIGSEGV: native code used memory that is not its own");
  EXPECT_TRUE(contains(classified(signalled(SIGBUS)).explanation, "SIGBUS", "/dev/shm"));
  EXPECT_TRUE(contains(classified(signalled(SIGILL)).explanation, "SIGILL", "this CPU", "muster doctor"));
  EXPECT_EQ(classified(signalled(SIGRTMIN + 3)).explanation,
            "rank 3 was ended by signal " + std::to_string(SIGRTMIN + 3));
}

TEST(Classify, DoesNotTakeTheLastWordsOfAKilledRankForTheReason) {
  EXPECT_EQ(classified(signalled(SIGKILL, raising("RuntimeError: NCCL error"))).kind, FailureKind::signal);
}

TEST(Classify, BelievesWhatARankSaidBeforeItAborted) {
  const auto failure =
      classified(signalled(SIGABRT,
                           "terminate called after throwing an instance of 'c10::DistBackendError'\n"
                           "  what():  [PG 0] Watchdog caught collective operation timeout: WorkNCCL"));
  EXPECT_EQ(failure.kind, FailureKind::communication);
  EXPECT_EQ(classified(signalled(SIGABRT)).kind, FailureKind::signal);
}

TEST(Classify, TellsTheExceptionOfARankThatHadToBeKilledAfterIt) {
  WorkerFailure failure = recorded("RuntimeError: boom");
  failure.end = {std::nullopt, SIGTERM, false};
  classify(failure);
  EXPECT_EQ(failure.kind, FailureKind::signal);
  EXPECT_EQ(failure.explanation, "rank 3 was ended by SIGTERM after RuntimeError: boom");
}

TEST(Classify, TellsAKillForWantOfMemoryFromAnotherKill) {
  EXPECT_TRUE(contains(classified(signalled(SIGKILL)).explanation, "SIGKILL", "no kill for want of memory"));
  const std::string loader = raising("RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed. ");
  for (WorkerFailure failure : {signalled(SIGKILL), exited(137), exited(1, loader)}) {
    EXPECT_NE(classified(failure).kind, FailureKind::host_memory);
    failure.out_of_memory_kill = true;
    EXPECT_EQ(classified(failure).kind, FailureKind::host_memory);
    EXPECT_TRUE(contains(classified(failure).explanation, "rank 3 was killed", "memory"));
  }
  WorkerFailure other = exited(1, raising("ValueError: x"));
  other.out_of_memory_kill = true;  // somebody else's
  EXPECT_EQ(classified(other).kind, FailureKind::exit_code);
}

TEST(Classify, ReadsAShellsWordForASignal) {
  EXPECT_EQ(classified(exited(139)).explanation, "rank 3 ended with exit code 139 (a shell's word for SIGSEGV)");
}

TEST(Classify, TellsWhyAProgramWasNotStarted) {
  WorkerFailure failure;
  failure.rank = 3;
  failure.not_started = "cannot run pyton: No such file or directory";
  classify(failure);
  EXPECT_EQ(failure.kind, FailureKind::not_started);
  EXPECT_EQ(failure.explanation, "rank 3 could not be started: cannot run pyton: No such file or directory");
}

TEST(Classify, CutsALongMessageBetweenCharacters) {
  std::string message = "ValueError: ";
  for (int count = 0; count < 500; ++count) message += "ü";
  const std::string explanation = classified(recorded(message)).explanation;
  EXPECT_LT(explanation.size(), 400U);
  EXPECT_TRUE(explanation.ends_with("ü…")) << explanation;
}

TEST(TorchExitCode, IsTheCodeOrMinusTheSignal) {
  EXPECT_EQ(torch_exit_code({3, std::nullopt, false}), 3);
  EXPECT_EQ(torch_exit_code({std::nullopt, SIGKILL, false}), -9);
  EXPECT_EQ(torch_exit_code({}), 1);
}

}  // namespace
}  // namespace muster::launch

#include "queue/conductor_status.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/file_lock.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::queue {
namespace {

TEST(ConductorStatus, IsReadBack) {
  for (const ConductorStatus& status :
       {ConductorStatus{{4711, 12}, ""}, ConductorStatus{{1, 2}, "cannot write \"x\": No space left on device"}})
    EXPECT_EQ(parse_conductor_status(to_text(status)), status);
  EXPECT_EQ(parse_conductor_status(""), std::nullopt);
  EXPECT_EQ(parse_conductor_status("{\"process\": 3}"), std::nullopt);
}

TEST(ConductorStatus, OfOneThatIsStoppedOrWaitsIsATrouble) {
  const testing::ScratchFolder scratch;
  const StateFolder folder(scratch.path());
  const pid_t conductor = ::fork();
  if (conductor == 0) {
    const auto lock = lock_file(folder.conductor_lock());
    write_status(*lock, {read_process_status(::getpid())->identity, "cannot write: No space left on device"});
    ::raise(SIGSTOP);
    write_status(*lock, {read_process_status(::getpid())->identity, ""});
    ::raise(SIGSTOP);
    ::pause();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(conductor, &status, WUNTRACED), conductor);
  const std::string stopped = conductor_trouble(folder).value_or("");
  EXPECT_NE(stopped.find("kill -CONT " + std::to_string(conductor)), std::string::npos) << stopped;
  ::kill(conductor, SIGCONT);
  ASSERT_EQ(::waitpid(conductor, &status, WUNTRACED), conductor);
  ::kill(conductor, SIGCONT);
  ASSERT_EQ(::waitpid(conductor, &status, WCONTINUED), conductor);
  EXPECT_EQ(conductor_trouble(folder), std::nullopt) << "it runs, and waits for nothing";
  {
    const FileDescriptor file(::open(folder.conductor_lock().c_str(), O_RDWR));
    write_status(file, {read_process_status(conductor)->identity, "cannot write: No space left on device"});
  }
  const std::string waiting = conductor_trouble(folder).value_or("");
  EXPECT_NE(waiting.find("No space left on device"), std::string::npos) << waiting;
  ::kill(conductor, SIGKILL);
  ::waitpid(conductor, nullptr, 0);
  EXPECT_EQ(conductor_trouble(folder), std::nullopt) << "it is gone";
}

}  // namespace
}  // namespace muster::queue

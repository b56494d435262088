// What a program in a sandbox tries to reach, and does not.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "sandbox_fixture.hpp"
#include "system/files.hpp"
#include "system/file_descriptor.hpp"
#include "testing/environment_variable.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::sandbox {
namespace {

using testing::ScratchFolder;

// Prints what an expression gives, or the name of its exception.
std::string tried(const std::string& expression) {
  return fmt::format("try:\n print({})\nexcept BaseException as error: print(type(error).__name__)\n", expression);
}

// A folder and file that every user of the host may read and write.
class OpenFolder : public ScratchFolder {
 public:
  OpenFolder() : file(write("file", "secret")) {
    ::chmod(path().c_str(), 0777);
    ::chmod(file.c_str(), 0666);
  }
  const std::filesystem::path file;
};

FileDescriptor listening(int family, const sockaddr* address, socklen_t size) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::bind(socket.number(), address, size) != 0 || ::listen(socket.number(), 1) != 0) throw std::runtime_error("listen");
  return socket;
}

class Escape : public Confined {};

TEST_P(Escape, RunsAProgramAndTellsHowItEnded) {
  Order order = python("import sys; print(sys.stdin.read()); print('wrong', file=sys.stderr); sys.exit(7)");
  order.input = "read";
  const Outcome outcome = run(std::move(order));
  EXPECT_EQ(outcome.output, "read\n");
  EXPECT_EQ(outcome.errors, "wrong\n");
  EXPECT_EQ(outcome.end.exit_code, 7);
  EXPECT_FALSE(outcome.exceeded);
}

TEST_P(Escape, ReachesNoNetwork) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const FileDescriptor server = listening(AF_INET, reinterpret_cast<sockaddr*>(&address), sizeof address);
  socklen_t size = sizeof address;
  ::getsockname(server.number(), reinterpret_cast<sockaddr*>(&address), &size);
  const Outcome outcome = run("import socket\n" + tried(fmt::format("socket.create_connection(('127.0.0.1', {}))",
                                                                   ntohs(address.sin_port))) +
                              tried("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)") +
                              tried("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"));
  EXPECT_EQ(outcome.output, "PermissionError\nPermissionError\nPermissionError\n") << outcome.errors;
  EXPECT_EQ(::accept(server.number(), nullptr, nullptr), -1);
}

TEST_P(Escape, ReachesNoSocketInTheFilesOfTheHost) {
  const OpenFolder folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder.path() / "socket";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const FileDescriptor server = listening(AF_UNIX, reinterpret_cast<sockaddr*>(&address), sizeof address);
  ::chmod(path.c_str(), 0777);
  const Outcome outcome = run("import socket\n" + tried(fmt::format("socket.socket(socket.AF_UNIX).connect('{}')", path)) +
                              tried("[one.send(b'x') for one, other in [socket.socketpair()]][0]"));
  EXPECT_EQ(outcome.output, has_namespaces() ? "FileNotFoundError\n1\n" : "PermissionError\n1\n") << outcome.errors;
  EXPECT_EQ(::accept(server.number(), nullptr, nullptr), -1);
}

TEST_P(Escape, ReadsNoFileOfTheHost) {
  const OpenFolder folder;
  const Outcome outcome =
      run("import os\n" + tried(fmt::format("open('{}').read()", folder.file.string())) +
          tried(fmt::format("os.listdir('{}')", folder.path().string())) + tried("open('/etc/passwd').read()") +
          tried("os.listdir('/home')") + tried("os.listdir('/root')") + tried("os.listdir('/sys')"));
  const std::string refused = has_namespaces() ? "FileNotFoundError\n" : "PermissionError\n";
  EXPECT_EQ(outcome.output, refused + refused + refused + refused + refused + refused) << outcome.errors;
}

TEST_P(Escape, ChangesNoFileOfTheHost) {
  const OpenFolder folder;
  const std::string file = folder.file;
  const Outcome outcome = run("import os\n" + tried(fmt::format("open('{}', 'a')", file)) +
                              tried(fmt::format("os.truncate('{}', 0)", file)) + tried(fmt::format("os.remove('{}')", file)) +
                              tried(fmt::format("os.rename('{0}', '{0}2')", file)) +
                              tried(fmt::format("os.chmod('{}', 0)", file)) + tried(fmt::format("os.utime('{}')", file)) +
                              tried(fmt::format("os.open('{}', os.O_RDONLY | os.O_TRUNC)", file)) +
                              tried(fmt::format("open('{}/new', 'w')", folder.path().string())) +
                              tried("open('/usr/new', 'w')") + tried("os.mkdir('/new')"));
  for (std::size_t begin = 0, end = 0; begin < outcome.output.size(); begin = end + 1) {
    end = outcome.output.find('\n', begin);
    const std::string line = outcome.output.substr(begin, end - begin);
    EXPECT_TRUE(line == "FileNotFoundError" || line == "PermissionError" || line == "OSError") << outcome.output;
  }
  EXPECT_EQ(std::ranges::count(outcome.output, '\n'), 10) << outcome.output << outcome.errors;
  EXPECT_EQ(*read_file(file), "secret");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_P(Escape, SeesNothingOfThisProcess) {
  const testing::EnvironmentVariable secret("MUSTER_TEST_SECRET", "unseen");
  const FileDescriptor inherited(::open("/dev/null", O_RDONLY));  // not closed by exec
  const Outcome outcome = run(fmt::format(R"py(
import os
def fails(work):
    try: work()
    except OSError: return True
print("MUSTER_TEST_SECRET" in os.environ)
print(all(fails(lambda: os.fstat(number)) for number in range(3, 2000)))
for pid in (1, {0}, os.getppid() or 1):
    for name in ("environ", "mem", "maps", "fd/0", "cwd/x", "root/etc/passwd"):
        if not fails(lambda: open(f"/proc/{{pid}}/{{name}}", "rb").read(1)): print(pid, name)
if os.path.exists("/proc/self/fd"):
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    print(len(processes) <= 2)
else: print(True)
)py",
                                          ::getpid()));
  EXPECT_EQ(outcome.output, has_namespaces() ? "False\nTrue\nTrue\n" : "False\nTrue\n") << outcome.errors;
}

TEST_P(Escape, TouchesNoOtherProcess) {
  const Outcome outcome = run(fmt::format(R"py(
import ctypes, os, signal
library = ctypes.CDLL(None, use_errno=True)
def fails(work):
    try: work()
    except OSError: return True
for pid in ({0}, os.getppid() or 1):
    attach, seize = library.ptrace(16, pid, 0, 0), library.ptrace(0x4206, pid, 0, 0)
    print(attach, seize, library.process_vm_readv(pid, None, 0, None, 0, 0))
for pid in ({0}, os.getppid()):
    if pid != 0 and not fails(lambda: os.kill(pid, signal.SIGKILL)) and pid != 1: print("killed", pid)
print("here")
)py",
                                          ::getpid()));
  EXPECT_EQ(outcome.output, "-1 -1 -1\n-1 -1 -1\nhere\n") << outcome.errors;
}

TEST_P(Escape, GetsNoneOfTheCallsThatOpenNewWays) {
  const Outcome outcome = run(R"py(
import ctypes, errno, os
library = ctypes.CDLL(None, use_errno=True)
def reason(result):
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "granted"
number = {"x86_64": dict(bpf=321, perf_event_open=298, userfaultfd=323, keyctl=250, io_uring_setup=425, mount=165,
                         unshare=272, setns=308, open_tree=428, clone3=435, memfd_create=319, newest=468)}
number = number.get(os.uname().machine) or dict(bpf=280, perf_event_open=241, userfaultfd=282, keyctl=219,
          io_uring_setup=425, mount=40, unshare=97, setns=268, open_tree=428, clone3=435, memfd_create=279, newest=468)
for name, call in number.items():
    print(name, reason(library.syscall(call, 0, 0, 0, 0, 0, 0)))
print(reason(library.unshare(0x10000000)))
print(os.getuid() != 0 and library.setuid(0) < 0)
)py");
  EXPECT_EQ(outcome.output,
            "bpf EPERM\nperf_event_open EPERM\nuserfaultfd EPERM\nkeyctl EPERM\nio_uring_setup ENOSYS\nmount EPERM\n"
            "unshare EPERM\nsetns EPERM\nopen_tree EPERM\nclone3 ENOSYS\nmemfd_create EPERM\nnewest ENOSYS\nEPERM\n"
            "True\n")
      << outcome.errors;
}

TEST_P(Escape, WritesToTmpOnlyWhereItIsItsOwn) {
  const Outcome outcome = run(tried("open('/tmp/muster-test-of-the-sandbox', 'w').write('x')"));
  EXPECT_EQ(outcome.output, has_namespaces() ? "1\n" : "PermissionError\n");
  EXPECT_FALSE(std::filesystem::exists("/tmp/muster-test-of-the-sandbox"));
}

INSTANTIATE_TEST_SUITE_P(Under, Escape, ::testing::Values(Isolation::namespaces, Isolation::landlock), name_of);

}  // namespace
}  // namespace muster::sandbox

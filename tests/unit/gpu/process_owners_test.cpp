#include "gpu/process_owners.hpp"

#include <gtest/gtest.h>

#include "system/process.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::gpu {
namespace {

namespace fs = std::filesystem;

// A /proc with one process, 4711.
class ProcessOwners : public ::testing::Test {
 protected:
  ProcessOwners() {
    fs::create_directories(proc_ / "4711/fd");
    fs::create_directories(proc_ / "self/ns");
    scratch_.write("4711/cmdline", std::string("python\0train.py\0", 16));
  }
  void in_namespace(const std::string& name) { fs::create_symlink(name, proc_ / "self/ns/pid"); }
  void opens(const std::string& file) {
    fs::create_symlink("/dev/null", proc_ / "4711/fd/0");
    fs::create_symlink(file, proc_ / "4711/fd/7");
  }
  GpuProcess owner(pid_t pid) {
    GpuProcess process;
    process.pid = pid;
    process.memory = gibibytes(1);
    add_owner(process, proc_);
    return process;
  }

  testing::ScratchFolder scratch_;
  fs::path proc_ = scratch_.path();
};

TEST_F(ProcessOwners, AreNamedInTheInitialNamespace) {
  in_namespace("pid:[4026531836]");
  const GpuProcess process = owner(4711);
  EXPECT_EQ(process.user, user_name(::getuid()));
  EXPECT_EQ(process.command, "python train.py");
  EXPECT_EQ(process.memory, gibibytes(1));
}

TEST_F(ProcessOwners, AreNotGuessedInAContainer) {
  in_namespace("pid:[4026532201]");
  opens("/dev/zero");
  EXPECT_EQ(owner(4711).user, std::nullopt);
  EXPECT_EQ(owner(4711).command, std::nullopt);
}

TEST_F(ProcessOwners, AreNotGuessedWhenTheNamespaceCannotBeRead) { EXPECT_EQ(owner(4711).command, std::nullopt); }

TEST_F(ProcessOwners, AreBelievedInAContainerWhenTheProcessHoldsADevice) {
  in_namespace("pid:[4026532201]");
  opens("/dev/nvidia0");
  EXPECT_EQ(owner(4711).command, "python train.py");
  EXPECT_TRUE(owner(4711).user.has_value());
}

TEST_F(ProcessOwners, AreAbsentForAProcessThatIsGone) {
  in_namespace("pid:[4026531836]");
  EXPECT_EQ(owner(4712).user, std::nullopt);
  EXPECT_EQ(owner(4712).command, std::nullopt);
}

}  // namespace
}  // namespace muster::gpu

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "child.hpp"
#include "lease_fixture.hpp"

namespace muster::lease {
namespace {

using testing::in_child;

class LeaseFolderCheck : public LeaseTest {
 protected:
  void expect_refusal(const Error& error, const std::string& fact) {
    EXPECT_EQ(error.kind, Error::Kind::failed);
    EXPECT_NE(error.what.find(folder_.string()), std::string::npos) << error.what;
    EXPECT_NE(error.what.find(fact), std::string::npos) << error.what;
    EXPECT_NE(error.remedy.find("MUSTER_LEASE_DIR"), std::string::npos) << error.remedy;
  }
};

TEST_F(LeaseFolderCheck, PassesWhereLeasesCanBeTakenAndLocksNothing) {
  EXPECT_TRUE(table_.check());
  EXPECT_TRUE(std::filesystem::is_directory(folder_));
  EXPECT_TRUE(table_.check());
  EXPECT_TRUE(LeaseTable(folder_ / "").check());
}

TEST_F(LeaseFolderCheck, RefusesAFileInItsPlace) {
  scratch_.write("leases", "");
  expect_refusal(table_.check().error(), "is a file");
  expect_refusal(take(table_, {"GPU-a"}).error(), "is a file");
  EXPECT_FALSE(table_.holder_of("GPU-a"));
}

TEST_F(LeaseFolderCheck, RefusesALinkInItsPlace) {
  std::filesystem::create_directory(scratch_.path() / "elsewhere");
  std::filesystem::create_symlink(scratch_.path() / "elsewhere", folder_);
  expect_refusal(table_.check().error(), "symbolic link");
  expect_refusal(take(table_, {"GPU-a"}).error(), "symbolic link");
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path() / "elsewhere"));
}

TEST_F(LeaseFolderCheck, NamesTheMissingFolderAbove) {
  LeaseTable table(folder_ / "not" / "there");
  const auto checked = table.check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().remedy.find("mkdir -p " + (folder_ / "not").string()), std::string::npos)
      << checked.error().remedy;
}

TEST_F(LeaseFolderCheck, RefusesAFolderThisUserCannotWrite) {
  std::filesystem::create_directory(folder_);
  ::chmod(folder_.c_str(), 0555);
  const auto attempt = [&](bool check) {
    return in_child([&, check] {
      testing::become_another_user();
      LeaseTable table(folder_);
      const Error error = check ? table.check().error() : take(table, {"GPU-a"}).error();
      const bool right =
          error.kind == Error::Kind::failed && error.remedy.find("MUSTER_LEASE_DIR") != std::string::npos;
      return right ? error.what : "wrong";
    });
  };
  for (const bool check : {true, false}) {
    const auto said = attempt(check);
    EXPECT_NE(said.find("Permission denied"), std::string::npos) << said;
    EXPECT_NE(said.find(folder_.string()), std::string::npos) << said;
  }
}

TEST_F(LeaseFolderCheck, NoticesThatNewLockFilesCannotBeMade) {
  ASSERT_TRUE(table_.check());
  static_cast<void>(take(table_, {"GPU-a"}));
  ::chmod(folder_.c_str(), 0555);
  EXPECT_EQ(in_child([&] {
              testing::become_another_user();
              LeaseTable table(folder_);
              const bool existing = static_cast<bool>(take(table, {"GPU-a"}));
              const auto fresh = take(table, {"GPU-b"});
              return existing && !fresh && !table.check() ? fresh.error().what : "wrong";
            }),
            "cannot create " + (folder_ / "GPU-b.lock").string() + ": Permission denied");
  ::chmod(folder_.c_str(), 01777);  // so that it can be removed
}

TEST_F(LeaseFolderCheck, FollowsTheEnvironmentThenTheMachine) {
  {
    const testing::EnvironmentVariable chosen("MUSTER_LEASE_DIR", "/somewhere/else");
    EXPECT_EQ(LeaseTable::default_folder(), "/somewhere/else");
  }
  const testing::EnvironmentVariable unset("MUSTER_LEASE_DIR", "");
  const auto folder = LeaseTable::default_folder();
  struct stat status {};
  const bool open_to_all = ::stat("/run/lock", &status) == 0 && (status.st_mode & 07U) == 07U;
  EXPECT_EQ(folder, open_to_all ? "/run/lock/muster" : "/tmp/muster-leases");
}

// Fills the disk that holds the folder.
void run_out_of_space(const std::filesystem::path& folder) {
  const std::string filler = (folder.parent_path() / "filler").string();
  const FileDescriptor file(::open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string block(4096, 'x');
  while (::write(file.number(), block.data(), block.size()) > 0) {
  }
}

// In a mount namespace of this process's own, so that it goes with it. Without root, in a user namespace where we are
// root.
bool mount_small_disk(const std::filesystem::path& where) {
  if (::unshare(CLONE_NEWNS) != 0) {
    const std::string user = "0 " + std::to_string(::geteuid()) + " 1";
    const std::string group = "0 " + std::to_string(::getegid()) + " 1";
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    for (const auto& [file, text] :
         {std::pair{"setgroups", std::string("deny")}, {"uid_map", user}, {"gid_map", group}})
      if (!(std::ofstream(std::string("/proc/self/") + file) << text << std::flush)) return false;
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return ::mount("tmpfs", where.c_str(), "tmpfs", 0, "size=128k,nr_inodes=32") == 0;
}

// The same to a writer, where no disk can be mounted.
void forbid_writing() {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit nothing{0, 0};
  ::setrlimit(RLIMIT_FSIZE, &nothing);
}

TEST_F(LeaseFolderCheck, LeasesOnAFullDisk) {
  EXPECT_EQ(in_child([&]() -> std::string {
              const bool mounted = mount_small_disk(scratch_.path());
              LeaseTable table(folder_);
              static_cast<void>(table.acquire(Names{"GPU-a"}, Purpose{"before"}));
              mounted ? run_out_of_space(folder_) : forbid_writing();
              auto lease = table.acquire(Names{"GPU-a"}, Purpose{"on-the-full-disk"});
              if (!lease) return to_string(lease.error());
              lease->record_memory_before("GPU-a", mebibytes(5));
              const auto holder = table.holder_of("GPU-a");
              if (!holder || holder->pid != ::getpid()) return "the holder is lost";
              // The record's space was there before the disk was full.
              if (mounted && (holder->command != "on-the-full-disk" || holder->memory_before != mebibytes(5)))
                return "the record is lost";
              if (take(table, {"GPU-a"})) return "granted twice";
              const auto unrecorded = take(table, {"GPU-b"});
              if (!unrecorded) return to_string(unrecorded.error());
              if (take(table, {"GPU-b"})) return "GPU-b granted twice";
              return "leased";
            }),
            "leased");
}

TEST_F(LeaseFolderCheck, WaitsInLineOnAFullDisk) {
  EXPECT_EQ(in_child([&]() -> std::string {
              const bool mounted = mount_small_disk(scratch_.path());
              LeaseTable table(folder_);
              static_cast<void>(table.check());
              mounted ? run_out_of_space(folder_) : forbid_writing();
              testing::Child waiter([&](const testing::Talk& talk) {
                talk.listen();
                LeaseTable own(folder_);
                const Names names{"GPU-a"};
                const auto choose = [&](const Occupancy& occupancy) -> Result<Names> {
                  if (occupancy.holder_of("GPU-a")) return Error{Error::Kind::refused, "held", ""};
                  return names;
                };
                const auto later =
                    own.acquire(names, choose, Purpose{"waiter"}, patient, [&](const Error&) { talk.say("waiting"); });
                talk.say(word(later));
                talk.listen();
              });
              auto lease = std::make_optional(take(table, {"GPU-a", "GPU-b"}));
              if (!*lease) return to_string(lease->error());
              waiter.go_on();
              if (waiter.hear() != "waiting") return "not in line";
              lease.reset();
              return waiter.hear();
            }),
            "granted");
}

TEST_F(LeaseFolderCheck, SaysWhatToDoWhenNoLockFileCanBeMade) {
  const auto said = in_child([&]() -> std::string {
    if (!mount_small_disk(scratch_.path())) {
      // Without a disk of our own: the same answer from a folder that takes no files.
      std::filesystem::create_directory(folder_);
      ::chmod(folder_.c_str(), 0555);
      testing::become_another_user();
    }
    LeaseTable table(folder_);
    static_cast<void>(take(table, {"GPU-a"}));
    for (int file = 0; ::open((scratch_.path() / std::to_string(file)).c_str(), O_CREAT | O_CLOEXEC, 0600) >= 0;)
      ++file;
    const auto lease = take(table, {"GPU-a", "GPU-b"});
    if (lease) return "granted";
    return lease.error().what + " | " + lease.error().remedy;
  });
  EXPECT_NE(said.find("cannot create"), std::string::npos) << said;
  EXPECT_NE(said.find("MUSTER_LEASE_DIR"), std::string::npos) << said;
}

}  // namespace
}  // namespace muster::lease

#include "sandbox/system_call_filter.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>

namespace muster::sandbox {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#else
#error "the sandbox knows the system calls of x86-64 and of 64-bit ARM"
#endif

// The last one of Linux 6.1. A later call might do what an earlier one is denied for; libraries go on without those they miss.
constexpr std::uint32_t last_known_call = 450;

constexpr std::uint32_t every_bit = 0xffffffff;
constexpr std::uint32_t new_namespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// Other processes, the kernel itself, and memory that no limit covers.
constexpr std::uint32_t never[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_kcmp, SYS_pidfd_getfd,
    SYS_move_pages, SYS_migrate_pages, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen,
    SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_unshare, SYS_setns, SYS_swapon, SYS_swapoff,
    SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_quotactl, SYS_acct,
    SYS_syslog, SYS_sethostname, SYS_setdomainname, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime,
    SYS_adjtimex, SYS_vhangup, SYS_personality, SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_fanotify_init,
    SYS_memfd_create, 447 /* memfd_secret */, SYS_shmget, SYS_shmat, SYS_msgget, SYS_semget, SYS_mq_open,
    SYS_mq_unlink};

// What changes files of the host without opening them, or reaches its processes.
constexpr std::uint32_t never_on_the_host[] = {
    SYS_truncate, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr,
    SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
#ifdef __x86_64__
    SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
    SYS_socket, SYS_connect, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_open,
    SYS_pidfd_send_signal, SYS_setpriority, SYS_ioprio_set};

// Granted for the calling process alone.
constexpr std::uint32_t of_one_process[] = {SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam,
                                            SYS_sched_setattr};

constexpr std::uint32_t io_uring[] = {425, 426, 427};

class FilterWriter {
 public:
  FilterWriter() {
    load(offsetof(seccomp_data, arch));
    jump(BPF_JEQ, architecture, 1, 0);
    answer(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
    jump(BPF_JGT, last_known_call, 0, 1);  // also the calls of the x32 interface
    answer(SECCOMP_RET_ERRNO | ENOSYS);
  }

  void deny(std::uint32_t call, std::uint32_t reason = EPERM) {
    jump(BPF_JEQ, call, 0, 1);
    answer(SECCOMP_RET_ERRNO | reason);
  }
  void deny_if(std::uint32_t call, int argument, std::uint32_t mask, std::uint32_t value) {
    compare(call, argument, mask, value, true);
  }
  void deny_unless(std::uint32_t call, int argument, std::uint32_t mask, std::uint32_t value) {
    compare(call, argument, mask, value, false);
  }
  void deny_unless_own_pid(std::uint32_t call, int argument) {
    filter_.own_pid_at.push_back(filter_.instructions.size() + 3);
    deny_unless(call, argument, every_bit, 0);
  }

  SystemCallFilter finish() {
    answer(SECCOMP_RET_ALLOW);
    return std::move(filter_);
  }

 private:
  // The number of the call is loaded before and after. Arguments that are compared are 32 bits wide.
  void compare(std::uint32_t call, int argument, std::uint32_t mask, std::uint32_t value, bool denied_when_equal) {
    jump(BPF_JEQ, call, 0, 5);
    load(offsetof(seccomp_data, args) + 8 * static_cast<std::size_t>(argument));
    add(BPF_ALU | BPF_AND | BPF_K, mask);
    jump(BPF_JEQ, value, denied_when_equal ? 0 : 1, denied_when_equal ? 1 : 0);
    answer(SECCOMP_RET_ERRNO | EPERM);
    load(offsetof(seccomp_data, nr));
  }
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  void answer(std::uint32_t what) { add(BPF_RET | BPF_K, what); }
  void jump(unsigned condition, std::uint32_t value, std::uint8_t over_if_true, std::uint8_t over_if_false) {
    add(BPF_JMP | condition | BPF_K, value, over_if_true, over_if_false);
  }
  void add(unsigned code, std::uint32_t constant, std::uint8_t if_true = 0, std::uint8_t if_false = 0) {
    filter_.instructions.push_back({static_cast<std::uint16_t>(code), if_true, if_false, constant});
  }

  SystemCallFilter filter_;
};

void deny_what_touches_the_host(FilterWriter& filter, bool truncation_is_open) {
  for (const std::uint32_t call : never_on_the_host) filter.deny(call);
  // A pair of datagram sockets could send to any address; a pair of streams only to each other.
  filter.deny_unless(SYS_socketpair, 1, 0xf, SOCK_STREAM);
  filter.deny_unless_own_pid(SYS_kill, 0);
  filter.deny_unless_own_pid(SYS_tgkill, 0);
  for (const std::uint32_t call : of_one_process) filter.deny_unless(call, 0, every_bit, 0);
  filter.deny_if(SYS_prctl, 0, every_bit, PR_SET_PDEATHSIG);  // it is to die with its keeper
  if (!truncation_is_open) return;
  filter.deny(437, ENOSYS);  // openat2 has its flags in memory
  filter.deny_if(SYS_openat, 2, O_TRUNC, O_TRUNC);
#ifdef __x86_64__
  filter.deny_if(SYS_open, 1, O_TRUNC, O_TRUNC);
  filter.deny(SYS_creat);
#endif
}

}  // namespace

SystemCallFilter make_filter(const FilterOptions& options) {
  FilterWriter filter;
  for (const std::uint32_t call : never) filter.deny(call);
  for (const std::uint32_t call : io_uring) filter.deny(call, ENOSYS);
  filter.deny(435, ENOSYS);  // clone3 has its flags in memory; the C library then calls clone
  filter.deny_unless(SYS_prlimit64, 0, every_bit, 0);
  filter.deny_unless(SYS_socketpair, 0, every_bit, AF_UNIX);
  filter.deny_unless(SYS_clone, 0, new_namespaces, 0);
  if (options.own_namespaces)
    filter.deny_unless(SYS_socket, 0, every_bit, AF_UNIX);
  else
    deny_what_touches_the_host(filter, options.truncation_is_open);
  if (!options.may_fork) {
    filter.deny_unless(SYS_clone, 0, CLONE_THREAD, CLONE_THREAD);
#ifdef __x86_64__
    filter.deny(SYS_fork);
    filter.deny(SYS_vfork);
#endif
  }
  return filter.finish();
}

void write_own_pid(SystemCallFilter& filter, pid_t pid) {
  for (const std::size_t at : filter.own_pid_at) filter.instructions[at].k = static_cast<std::uint32_t>(pid);
}

int apply_filter(const SystemCallFilter& filter) {
  sock_fprog program{static_cast<unsigned short>(filter.instructions.size()),
                     const_cast<sock_filter*>(filter.instructions.data())};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0 ? errno : 0;
}

}  // namespace muster::sandbox

// One rank's process as its parent, the keeper, sees it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "system/file_descriptor.hpp"
#include "base/result.hpp"
#include "system/subprocess.hpp"
#include "launch/keeper/control_group.hpp"
#include "launch/keeper/keeper_protocol.hpp"

namespace muster::launch {

class WorkerProcess {
 public:
  // Forks, into the group where there is one. The child waits until proceed() is called, so that whoever wants to see
  // its end can be ready for it. It dies with the keeper.
  static Result<WorkerProcess> start(const StartWorker& order, const ControlGroup* group);

  int local_rank() const { return local_rank_; }
  pid_t pid() const { return pid_; }
  const FileDescriptor& handle() const { return handle_; }        // readable once it has ended
  const FileDescriptor& beginning() const { return beginning_; }  // readable once begun() can tell

  void proceed() const;
  // Whether begun() was not asked yet.
  bool is_beginning() const { return static_cast<bool>(beginning_); }
  // Once: nothing when the program runs, else why it never will. (A signal may have ended it before it did; its end
  // says so.)
  std::optional<std::string> begun();
  bool has_failed() const { return failed_; }  // begun() gave a reason

  // To its process group.
  void signal(int signal) const;
  // Remembers that it is being signalled, unless it has ended already: then its end is its own.
  void note_signal();
  bool was_signalled() const { return signalled_; }
  // Its end, once; nothing while it runs. (Nor while a debugger has not yet let it go.)
  std::optional<ProcessEnd> reap() const;

 private:
  WorkerProcess(const StartWorker& order, pid_t pid, FileDescriptor handle, FileDescriptor beginning);

  int local_rank_;
  std::string program_;
  pid_t pid_;
  FileDescriptor handle_;
  FileDescriptor beginning_;
  bool failed_ = false;
  bool signalled_ = false;
};

}  // namespace muster::launch

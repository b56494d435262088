// How a job's process ended.
#pragma once

namespace muster::schedule {

enum class HowEnded { exited, killed, out_of_memory };

struct ProcessEnd {
  HowEnded how = HowEnded::exited;
  int code = 0;  // exited: its exit status; killed: the signal; out of memory: the status that a shell would report
  bool operator==(const ProcessEnd&) const = default;
};

}  // namespace muster::schedule

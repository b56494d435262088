// What a holder or waiter writes into its file: one line of JSON that others read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "system/file_descriptor.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/lease.hpp"

namespace muster::lease {

struct Record {
  std::string id;  // of the lease: 16 hexadecimal digits
  Holder holder;
};

// This process and this moment, under a new id.
Record describe_this_process(const Purpose& purpose);

std::string to_line(const Record& record);
// Anyone may write these files: nothing in them is trusted, what is not as expected is absent.
std::optional<Record> parse_record(std::string_view text);

std::optional<Record> read_record(const FileDescriptor& file);
// One write of a fixed size, so that later ones need no space. A record that cannot be written is not a reason to fail,
// but the one before it must not pass for it: then the file is emptied.
void write_record(const FileDescriptor& file, std::string_view line);

// Who holds a locked file: its record, unless the kernel names another process. Anyone may write the record, so that
// the user, and where it agrees with the record the command, are those of the process, as far as it can be seen.
Holder holder_of_locked(const FileDescriptor& file, const KernelLocks& locks);
// A process as the kernel shows it.
Holder holder_from_process(pid_t pid);

std::string to_ticket_text(const Record& record, const std::vector<ResourceName>& candidates);
std::optional<std::vector<ResourceName>> parse_candidates(std::string_view ticket);

}  // namespace muster::lease

// Whether a command ended for lack of memory, as far as that can be known from outside.
#pragma once

#include <string_view>

#include "queue/attempt_file.hpp"

namespace muster::queue {

// The same end, or one for lack of memory. memory_was_full: the kernel killed a process for that meanwhile; last_words:
// the command's last output.
CommandEnd with_memory_told(const CommandEnd& end, bool memory_was_full, std::string_view last_words);

}  // namespace muster::queue

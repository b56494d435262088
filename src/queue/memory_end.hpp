// Whether a command ended for want of memory, as far as it can be known from outside.
#pragma once

#include <string_view>

#include "queue/attempt_file.hpp"

namespace muster::queue {

// The same end, or one for want of memory. memory_was_full: the kernel killed somebody for that meanwhile; last_words:
// what the command wrote at last.
CommandEnd with_memory_told(const CommandEnd& end, bool memory_was_full, std::string_view last_words);

}  // namespace muster::queue

// Writing to a console that may be slow, non-blocking or gone.
#pragma once

#include <string_view>

namespace muster::launch {

// All of it, waiting where it must. When nobody reads any more or the disk behind it is full, the rest of the text is
// dropped: ranks must not stand still because of that. SIGPIPE is to be blocked or ignored in the calling thread.
void console_write(int console, std::string_view text);

}  // namespace muster::launch

// What a rendering depends on besides the template and its variables.
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>

namespace muster::chat {

struct RenderOptions {
  std::optional<std::tm> now;  // for strftime_now; absent: the clock's local time
  // Templates come from strangers: beyond these a rendering fails. The defaults are some seconds of work and a
  // gigabyte, far above what any conversation needs.
  std::size_t most_work = 50'000'000;
  std::size_t most_bytes = std::size_t{1} << 30;
};

}  // namespace muster::chat

#include "system/open_descriptors.hpp"

#include <dirent.h>

#include <algorithm>
#include <memory>

#include "base/text.hpp"

namespace muster {

std::vector<int> open_descriptors() {
  std::vector<int> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir("/proc/self/fd"), ::closedir);
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
    const auto number = parse_number<int>(entry->d_name);
    if (number && *number != ::dirfd(entries.get())) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace muster

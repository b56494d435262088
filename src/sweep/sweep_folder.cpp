#include "sweep/sweep_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "system/private_folder.hpp"

namespace muster::sweep {

Result<void> SweepFolder::prepare() const {
  // It holds the commands of trials.
  std::error_code failure = make_private_folder(path_);
  if (!failure) std::filesystem::create_directories(running(), failure);
  if (failure)
    return Error{Error::Kind::failed, fmt::format("cannot make {}: {}", running().string(), failure.message()),
                 "check the folder's permissions and free space, or name another one with --output"};
  return {};
}

Result<void> check_sweep_name(std::string_view name) {
  constexpr std::size_t longest = 100;
  const auto is_plain = [](unsigned char letter) { return letter < 128 && std::isalnum(letter) != 0; };
  const bool fits =
      !name.empty() && name.size() <= longest && is_plain(static_cast<unsigned char>(name.front())) &&
      std::ranges::all_of(name, [&](char letter) {
        return is_plain(static_cast<unsigned char>(letter)) || letter == '.' || letter == '_' || letter == '-';
      });
  if (fits) return {};
  return Error{Error::Kind::bad_input, fmt::format("\"{}\" cannot be the name of a sweep", name),
               "a name has letters, digits and . _ - , begins with a letter or digit, and has at most 100 of them"};
}

}  // namespace muster::sweep

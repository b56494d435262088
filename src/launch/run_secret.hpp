// The secret that the hosts of one run share, and where it comes from. The first host makes it; the others get it by a
// file that they can all read, or by a variable.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace muster::launch {

struct SecretSource {
  enum class Kind {
    own,       // one host: made up when the run starts, and known to nobody else
    text,      // given as it is (MUSTER_RDZV_SECRET)
    file,      // in a file that only its owner may read; the first host makes it where it is missing
    insecure,  // none: whoever reaches the port may take part
  };
  Kind kind = Kind::own;
  std::string text = {};
  std::filesystem::path file = {};
};

// MUSTER_STATE, else ~/.local/state/muster; on a cluster the home folder is usually the same on every host.
Result<std::filesystem::path> usual_secret_file();
// Where several hosts look when nothing else was asked for: MUSTER_RDZV_SECRET, else the usual file.
Result<SecretSource> usual_secret_source();

// For the host that serves.
Result<std::string> make_or_read_secret(const SecretSource& source);
// For the others: nothing while the file is not there.
Result<std::optional<std::string>> find_secret(const SecretSource& source);

}  // namespace muster::launch

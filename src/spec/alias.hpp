// Other spellings of keys that users' files and habits bring along, and keys that are refused with a reason.
#pragma once

#include <span>
#include <string_view>

namespace muster::spec {

struct Alias {
  std::string_view spelling;
  std::string_view key;
};

// A key of another program's files that needs no setting here. `accepted` are the values of which that is true, with bars
// between them; empty: any.
struct NeedlessKey {
  std::string_view key;
  std::string_view accepted;
  std::string_view reason;
  bool others_are_read = false;  // other values are those of an alias
};

struct RefusedKey {
  std::string_view key;
  std::string_view reason;
};

// An environment variable that is not a setting, or is one under another name.
struct ReservedVariable {
  std::string_view name;
  std::string_view meaning;
};

// A short form on the command line: "--num-gpus", or "-n", for distributed.num_gpus.
struct ShortOption {
  enum class Values { one, several, one_each };  // --gpu-ids 0 2 3; --adapter A --adapter B

  std::string_view option;
  std::string_view key;
  Values values = Values::one;
  char letter = '\0';  // of its one-letter form; none: '\0'
  bool trains = false;  // only for the commands that train, or plan training
};

std::span<const Alias> aliases();
// The key that a spelling stands for; any other text unchanged.
std::string_view canonical_key(std::string_view key);
std::span<const NeedlessKey> needless_keys();
std::span<const RefusedKey> refused_keys();
std::span<const ReservedVariable> reserved_variables();
std::span<const ShortOption> short_options();

}  // namespace muster::spec

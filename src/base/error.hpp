// What went wrong, in words a user can act on.
#pragma once

#include <string>
#include <vector>

namespace muster {

struct Error {
  enum class Kind {
    bad_input,  // the user wrote something invalid: exit code 2
    refused,    // well-formed, but it does not fit or is busy: exit code 3
    failed,     // the work or the machine failed: exit code 1
  };

  Kind kind = Kind::failed;
  std::string what;    // the fact, with the values that were seen
  std::string remedy;  // what to type or edit next; empty when nothing can be done

  bool operator==(const Error&) const = default;
};

Error bad_input(std::string what, std::string remedy);

// The process exit code that an error of this kind ends a command with.
int exit_code(Error::Kind kind);

// "what" and, on a separate line, "try: remedy".
std::string to_string(const Error& error);

// One finding of a check that looks at everything before it reports.
struct Problem {
  std::string where;   // "run.yaml:3:5", "--num-gpus", "MUSTER_MODEL_DTYPE"
  std::string what;    // what was seen
  std::string remedy;  // what is accepted

  bool operator==(const Problem&) const = default;
};

// All problems as one bad_input error, one line each.
Error to_error(const std::vector<Problem>& problems);

}  // namespace muster

// Where results go, line by line: a file that grows by whole lines, or standard output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "system/file_descriptor.hpp"

namespace muster::job {

class LineOutput {
 public:
  // path: "-" for standard output. A file's contents stay until begin(); a new file that never begins is removed again.
  // SIGPIPE is to be blocked or ignored where append() is called.
  static Result<LineOutput> open(const std::string& path);

  LineOutput(LineOutput&&) noexcept = default;
  LineOutput& operator=(LineOutput&&) = delete;
  ~LineOutput();

  // Empties the file, except for its first bytes, which are whole lines.
  Result<void> begin(std::int64_t keep = 0);
  // lines: whole ones, each with its newline. They are with the system when this returns. A file that cannot take all
  // of it, because the disk is full, is cut back to its last whole line.
  Result<void> append(std::string_view lines);

  // Whether what was written can be read back and continued.
  bool is_regular_file() const { return regular_; }
  // "out.jsonl", "standard output".
  const std::string& name() const { return name_; }

 private:
  LineOutput(FileDescriptor file, std::string name, bool regular, bool made)
      : file_(std::move(file)), name_(std::move(name)), regular_(regular), made_(made) {}
  int descriptor() const { return file_ ? file_.number() : STDOUT_FILENO; }
  Error explain(int reason) const;

  FileDescriptor file_;
  std::string name_;
  bool regular_;
  bool made_;               // by us, and still empty
  std::int64_t whole_ = 0;  // bytes up to the end of the last whole line
};

}  // namespace muster::job

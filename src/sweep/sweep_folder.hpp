// Where a sweep is stored. Its files are the whole truth about it, and several processes may work on them:
//   sweep.yaml               what is searched, and how
//   observations.jsonl       what came of the trials that ended
//   reports.jsonl            what trials reported while they ran
//   running/NAME.r.N.jsonl   a trial that has not ended: its settings, then how often it began; its process holds
//                            the file's lock
//   seconds                  how long the sweep has been worked on
//   lock                     held for the short steps in which any of these change
//   NAME.r.N/                what a trial leaves
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace muster::sweep {

class SweepFolder {
 public:
  // parent: the folder of all sweeps.
  SweepFolder(std::filesystem::path parent, std::string name)
      : path_(std::move(parent) / name), name_(std::move(name)) {}

  // Creates what is missing.
  Result<void> prepare() const;
  bool exists() const { return std::filesystem::exists(spec()); }

  const std::filesystem::path& path() const { return path_; }
  const std::string& name() const { return name_; }
  std::filesystem::path spec() const { return path_ / "sweep.yaml"; }
  std::filesystem::path observations() const { return path_ / "observations.jsonl"; }
  std::filesystem::path reports() const { return path_ / "reports.jsonl"; }
  std::filesystem::path running() const { return path_ / "running"; }
  std::filesystem::path running(const std::string& trial) const { return running() / (trial + ".jsonl"); }
  std::filesystem::path seconds() const { return path_ / "seconds"; }
  std::filesystem::path lock() const { return path_ / "lock"; }
  std::filesystem::path trial(const std::string& trial) const { return path_ / trial; }

 private:
  std::filesystem::path path_;
  std::string name_;
};

// Whether it is a valid name: letters, digits and . _ - , beginning with a letter or digit, at most 100 bytes.
Result<void> check_sweep_name(std::string_view name);

}  // namespace muster::sweep

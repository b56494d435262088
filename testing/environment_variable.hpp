// Sets or clears one environment variable for the duration of a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace muster::testing {

class EnvironmentVariable {
 public:
  EnvironmentVariable(std::string name, std::optional<std::string> value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    put(value);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;
  ~EnvironmentVariable() { put(before_); }

 private:
  void put(const std::optional<std::string>& value) {
    if (value)
      ::setenv(name_.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace muster::testing

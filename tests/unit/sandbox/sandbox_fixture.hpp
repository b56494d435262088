// A Python in a sandbox of each kind.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "sandbox/python_judge.hpp"
#include "sandbox/sandbox.hpp"

namespace muster::sandbox {

// One that every user may read: a sandbox of root's is nobody's.
inline Interpreter readable_python() {
  const std::string of_the_system = "/usr/bin/python3";
  auto found = find_interpreter(std::filesystem::exists(of_the_system) ? of_the_system : "python3");
  if (!found) throw std::runtime_error(to_string(found.error()));
  return *found;
}

inline std::string name_of(const ::testing::TestParamInfo<Isolation>& isolation) {
  return std::string(to_string(isolation.param)) == "Landlock" ? "Landlock" : "Namespaces";
}

// Each test runs under either isolation, where this kernel grants it.
class Confined : public ::testing::TestWithParam<Isolation> {
 protected:
  void SetUp() override {
    auto opened = Sandbox::open(GetParam());
    if (!opened) GTEST_SKIP() << to_string(opened.error());
    sandbox_ = *opened;
  }

  const Sandbox& sandbox() const { return *sandbox_; }
  bool has_namespaces() const { return GetParam() == Isolation::namespaces; }

  Order python(std::string code) const {
    Order order;
    order.command = {python_.program.string(), "-B", "-c", std::move(code)};
    order.visible = python_.folders;
    return order;
  }
  Outcome run(Order order, const Limits& limits = {}) const {
    auto outcome = sandbox().run(std::move(order), limits);
    if (!outcome) throw std::runtime_error(to_string(outcome.error()));
    return *outcome;
  }
  Outcome run(std::string code, const Limits& limits = {}) const { return run(python(std::move(code)), limits); }

  const Interpreter python_ = readable_python();

 private:
  std::optional<Sandbox> sandbox_;
};

}  // namespace muster::sandbox

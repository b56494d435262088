// The command of a program that users name in a setting: a line for the shell, or a list of a program and its
// arguments.
#pragma once

#include <string>
#include <vector>

namespace muster::reward {

// What is started: a line is for the shell, which becomes the program where that is one command alone.
std::vector<std::string> command_of(const std::vector<std::string>& program);

// As a user reads it, on one line.
std::string shown_command(const std::vector<std::string>& program);

}  // namespace muster::reward

// What others may read of a command: lease files are open to every user, and command lines hold secrets.
#pragma once

#include <string>
#include <string_view>

namespace muster::lease {

// The program's name without its folder and arguments; of muster's own commands also which one: "muster train".
std::string public_name(std::string_view command);

}  // namespace muster::lease

// A command's man page.
#pragma once

#include <string>

#include "cli/command_description.hpp"

namespace muster::cli {

// In roff's man macros. program: for the list of other pages.
std::string man_page(const CommandDescription& command, const CommandDescription& program);

// "muster-gpus-pick.1".
std::string man_page_name(const CommandDescription& command);

}  // namespace muster::cli

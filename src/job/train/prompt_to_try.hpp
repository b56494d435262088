// A prompt for trying out a model that was just trained.
#pragma once

#include <filesystem>
#include <string>

namespace muster::job {

// As a line for `muster generate -p -`: plain text, or a JSON row where the data is a conversation or the prompt has
// several lines. It is taken from the first row of the data, a file or a folder, and is short. If that cannot be
// read, a prompt that suits any language model.
std::string prompt_to_try(const std::filesystem::path& data);

// The shell command that pipes it: "echo '12+34='".
std::string piped(const std::string& line);

}  // namespace muster::job

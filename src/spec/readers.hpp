// Which commands read which setting. A setting that a command does not read is never silently ignored: typed for that
// command it is refused; from a file or the environment, which commands share, it is left to the others with a note.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "spec/resolve.hpp"

namespace muster::spec {

enum class Command { train, generate, evaluate, collect, serve_environments, plan_training, plan_inference, run, sweep };

// "muster train"
std::string_view name(Command command);

// By the table in readers.cpp. A new key is read by the commands of its section until the table says otherwise.
std::vector<Command> readers_of(std::string_view key);
bool reads(Command command, std::string_view key);
// "muster train, muster evaluate"
std::string readers_in_words(std::string_view key);

// A problem for each setting that was typed for a command that does not read it. Those of other sources, and those of
// the run that a plan is asked about, are named in one of resolved.notes.
std::vector<Problem> find_unread(const Schema& schema, Command command, ResolvedSpec& resolved);

}  // namespace muster::spec

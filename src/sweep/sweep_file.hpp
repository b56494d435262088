// The two kinds of sweep files. Both are read as far as possible; the reader then has what is wrong.
#pragma once

#include "base/node_reader.hpp"
#include "sweep/parameter_draft.hpp"
#include "sweep/sweep_spec.hpp"

namespace muster::sweep {

SweepSpec read_native_file(NodeReader& reader, const Node& root);
SweepSpec read_wandb_file(NodeReader& reader, const Node& root);

// What both kinds have.
std::optional<Goal> read_goal(NodeReader& reader, const Node& node);
std::optional<Method> read_method(NodeReader& reader, const Node& node);
// The eta of an early stop: a number above 1.
std::optional<double> read_eta(NodeReader& reader, const Node& node);
// A list of words, or one text, which is split at blanks. Unknown ${…} are refused.
std::vector<std::string> read_command(NodeReader& reader, const Node& node);
// Adds a parameter unless that path already has one.
void add_parameter(NodeReader& reader, const ParameterDraft& draft, Space& space);

}  // namespace muster::sweep

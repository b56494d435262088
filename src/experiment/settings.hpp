// Settings of muster's own commands inside an experiment: read, combined, checked.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/node_reader.hpp"
#include "experiment/experiment_spec.hpp"
#include "spec/readers.hpp"
#include "spec/schema.hpp"

namespace muster::experiment {

// The sections of docs/configuration.md that an experiment can hold.
inline constexpr std::array<std::string_view, 6> setting_sections{"model", "training",    "generation",
                                                                  "data",  "distributed", "system"};
// Whether a key of a table is one of them or in one ("training", "training.max_steps"), and not a word of ours.
bool is_setting_key(std::string_view key);

using Where = std::function<std::string(TextPosition)>;
// A table's settings, sections flattened. One that is given twice is refused; an argument overrides.
void flatten_settings(NodeReader& reader, const spec::Schema& schema, const Node& table, const Where& where,
                      Settings& settings);

// The command of a stage that muster runs itself.
spec::Command command_of(StageKind kind);

// The settings of one stage of a job: those of the experiment, family, data set, algorithm and stage, each overriding
// those before, as far as the stage's command reads it. Each key appears once; ${…} stays as written.
Settings settings_for(const ExperimentSpec& spec, const ExperimentJob& job, StageKind kind);

const Setting* find(const Settings& settings, std::string_view key);

// Everything that is wrong with an experiment itself: settings that muster's commands would refuse, ${…} that mean
// nothing, stages that lack what they need.
std::vector<Problem> problems_of(const ExperimentSpec& spec, const spec::Schema& schema);

}  // namespace muster::experiment

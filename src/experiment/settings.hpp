// Settings of muster's own commands inside an experiment: read, put together, checked.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/node_reader.hpp"
#include "experiment/experiment_spec.hpp"
#include "spec/schema.hpp"

namespace muster::experiment {

// The sections of docs/configuration.md that an experiment can hold.
inline constexpr std::array<std::string_view, 6> setting_sections{"model", "training",    "generation",
                                                                  "data",  "distributed", "system"};
// Whether a key of a table is one of them or in one ("training", "training.max_steps"), and no word of ours.
bool is_setting_key(std::string_view key);

using Where = std::function<std::string(TextPosition)>;
// A table's settings, sections opened. One that is said twice is refused; what an argument says overrules.
void flatten_settings(NodeReader& reader, const spec::Schema& schema, const Node& table, const Where& where,
                      Settings& settings);

// What one stage of a job is told: of the experiment, family, data set, algorithm and stage, each overruling those
// before. Keys are there once; ${…} stands as written.
Settings settings_for(const ExperimentSpec& spec, const ExperimentJob& job, StageKind kind);

const Setting* find(const Settings& settings, std::string_view key);

// Everything that speaks against an experiment by itself: settings that muster's commands would refuse, ${…} that mean
// nothing, stages that lack what they need.
std::vector<Problem> problems_of(const ExperimentSpec& spec, const spec::Schema& schema);

}  // namespace muster::experiment

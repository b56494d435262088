// ${…} in commands and settings.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace muster::experiment {

// algorithm, family, dataset, round, seed, job: the job's own. folder: where its files are. model: what the stage
// starts from. data: what generation wrote, else the data set's. output: what the stage has to write. gpus: how many it
// has.
const std::vector<std::string>& variable_names();

using Variables = std::map<std::string, std::string>;

// The names in a text; an unknown name is an error with the nearest one.
Result<std::set<std::string>> variables_in(std::string_view text);

// $${ stands for ${. Every name in the text must have a value.
Result<std::string> replace_variables(std::string_view text, const Variables& values);

}  // namespace muster::experiment

// Settings of the model that mean something only beside another one, or exclude each other.
#pragma once

#include <functional>
#include <string>

#include "spec/resolve.hpp"

namespace muster::spec {

// (loser, winner): the loser goes back to its built-in value.
using Overrule = std::function<void(const std::string&, const std::string&)>;
// (key, what is wrong with it, what to do)
using Report = std::function<void(const std::string&, std::string, std::string)>;

void settle_model_precedence(const Schema& schema, const ResolvedSpec& resolved, const Overrule& overrule);
void find_model_contradictions(const Schema& schema, const ResolvedSpec& resolved, const Report& report);

}  // namespace muster::spec

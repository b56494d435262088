// What cannot be checked on single settings: values that contradict one another.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "spec/resolve.hpp"

namespace muster::spec {

// If two settings exclude each other, the one from the higher source stays; the other goes back to its built-in
// value and a note says so. Two of equal rank are left for find_contradictions.
void settle_precedence(const Schema& schema, ResolvedSpec& resolved);

std::vector<Problem> find_contradictions(const Schema& schema, const ResolvedSpec& resolved);

}  // namespace muster::spec

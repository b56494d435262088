// What single settings cannot tell: values that contradict one another.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "spec/resolve.hpp"

namespace muster::spec {

// Of two settings that exclude each other, the one from the higher source stays; the other goes back to its built-in
// value and a note says so. Two of equal standing are left alone for find_contradictions.
void settle_precedence(const Schema& schema, ResolvedSpec& resolved);

std::vector<Problem> find_contradictions(const ResolvedSpec& resolved);

}  // namespace muster::spec

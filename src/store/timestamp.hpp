// Moments as written in the files of a run.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace muster::store {

using Moment = std::chrono::system_clock::time_point;

// "2026-08-01T14:03:09.250Z": UTC, so that runs of two hosts can be put in order.
std::string timestamp(Moment moment);
// The reverse of timestamp(); nothing if the text is not one.
std::optional<Moment> parse_timestamp(std::string_view text);

// "20260801-140309": this host's own time, as part of a folder's name.
std::string folder_time(Moment moment);
// "2026-08-01 14:03": this host's own time, for people.
std::string spoken_time(Moment moment);

}  // namespace muster::store

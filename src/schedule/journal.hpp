// The events of a scheduler as text, one JSON object per line. The journal is the truth: a scheduler that is given the
// same events is in the same state and will decide the same from there on.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schedule/event.hpp"
#include "schedule/scheduler.hpp"

namespace muster::schedule {

// Without the newline.
std::string to_line(const Event& event);
// source names the line in messages ("journal.jsonl:12").
Result<Event> read_line(std::string_view line, std::string_view source);

struct Journal {
  std::vector<Event> events;
  std::size_t whole = 0;  // bytes of the text that hold them; what follows is a line that was never finished
};
Result<Journal> read_journal(std::string_view text, std::string_view source);

// The scheduler that results from these events.
Result<Scheduler> replay(std::span<const Event> events, ChooseGpus choose = {});

}  // namespace muster::schedule

#include "schedule/decision.hpp"

namespace muster::schedule {

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::cancelled:
      return "cancelled";
    case StopReason::timeout:
      return "timeout";
    case StopReason::heartbeat:
      return "heartbeat";
    case StopReason::gpu_lost:
      return "gpu_lost";
  }
  return "";
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::succeeded:
      return "succeeded";
    case Outcome::failed:
      return "failed";
    case Outcome::skipped:
      return "skipped";
    case Outcome::cancelled:
      return "cancelled";
  }
  return "";
}

}  // namespace muster::schedule

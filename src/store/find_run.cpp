#include "store/find_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace muster::store {
namespace {

namespace fs = std::filesystem;

Result<RunFolder> latest(const fs::path& output, const std::vector<RunFolder>& runs) {
  const auto newest =
      std::ranges::max_element(runs, {}, [](const RunFolder& run) { return std::pair(run.created(), run.name()); });
  if (newest != runs.end()) return *newest;
  return Error{Error::Kind::bad_input, fmt::format("there is no run in {}", output.string()),
               "muster train makes one; --output names another folder of runs"};
}

// The name, or prefix of one, that a typing error most likely stands for. Names end in a time that is rarely typed.
std::optional<std::string> nearest_run(std::string_view word, const std::vector<RunFolder>& runs) {
  std::map<std::string, std::string> whole;  // of each beginning, the newest name
  std::vector<std::string> known;
  for (const RunFolder& run : runs)
    for (const std::string& text : {run.name(), run.name().substr(0, word.size())}) {
      whole[text] = run.name();
      known.push_back(text);
    }
  const auto near = nearest(word, known);
  return near ? std::optional(whole[*near]) : std::nullopt;
}

Error unknown(const fs::path& output, std::string_view which, const std::vector<RunFolder>& runs) {
  const auto near = nearest_run(which, runs);
  return {Error::Kind::bad_input, fmt::format("there is no run \"{}\" in {}", which, output.string()),
          near ? fmt::format("{}; muster runs lists all", *near) : "muster runs lists the runs"};
}

Error ambiguous(std::string_view which, const std::vector<RunFolder>& begun) {
  constexpr std::size_t enough = 5;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(enough, begun.size()); ++i) names.push_back(begun[i].name());
  if (begun.size() > enough) names.emplace_back("…");
  return {Error::Kind::bad_input, fmt::format("{} runs begin with \"{}\"", begun.size(), which),
          fmt::format("one of {}", join(names, ", "))};
}

}  // namespace

std::vector<RunFolder> folders_in(const fs::path& output) {
  std::vector<RunFolder> found;
  std::error_code failure;
  for (fs::directory_iterator entry(output, failure), end; !failure && entry != end; entry.increment(failure)) {
    if (entry->path().filename().string().starts_with('.')) continue;
    if (auto run = RunFolder::open(entry->path())) found.push_back(std::move(*run));
  }
  std::ranges::sort(found, {}, &RunFolder::name);
  return found;
}

Result<RunFolder> find_run(const fs::path& output, std::string_view which) {
  if (which.find('/') != std::string_view::npos || which == "." || which == "..") return RunFolder::open(which);
  std::vector<RunFolder> runs = folders_in(output);
  for (const RunFolder& run : runs)
    if (run.name() == which) return run;
  std::erase_if(runs, [](const RunFolder& run) { return !run.looks_like_a_run(); });
  if (which == "latest") return latest(output, runs);
  std::vector<RunFolder> begun;
  if (!which.empty())
    std::ranges::copy_if(runs, std::back_inserter(begun),
                         [&](const RunFolder& run) { return run.name().starts_with(which); });
  if (begun.size() == 1) return begun.front();
  return begun.empty() ? unknown(output, which, runs) : ambiguous(which, begun);
}

}  // namespace muster::store

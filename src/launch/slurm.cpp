#include "launch/slurm.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace muster::launch {
namespace {

constexpr std::size_t most_hosts = 65536;

std::optional<std::string> look_up(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = environment.find(name); found != environment.end() && !found->second.empty())
      return found->second;
  return std::nullopt;
}

Result<int> number_of(const Environment& environment, std::initializer_list<const char*> names, int fallback) {
  for (const char* name : names) {
    const auto text = look_up(environment, {name});
    if (!text) continue;
    const auto number = parse_number<int>(*text);
    if (!number || *number < 0)
      return Error{Error::Kind::bad_input, fmt::format("{}=\"{}\" is not a count", name, *text),
                   "run under srun, or unset the SLURM_ variables"};
    return *number;
  }
  return fallback;
}

Error bad_list(std::string_view list, std::string_view reason) {
  return {Error::Kind::bad_input, fmt::format("\"{}\" is not a list of hosts: {}", list, reason),
          "as Slurm writes it: node[01-03,07],login"};
}

std::optional<int> count_in(std::string_view text) {
  const auto count = parse_number<int>(text);
  return count && *count >= 1 ? count : std::nullopt;
}

// Appends prefix + each of "01-03,07" to hosts.
Result<void> expand_ranges(std::string_view list, std::string_view prefix, std::string_view ranges,
                           std::vector<std::string>& hosts) {
  for (const std::string& range : split(ranges, ',')) {
    const std::vector<std::string> ends = split(range, '-');
    const auto first = parse_number<std::size_t>(ends.front());
    const auto last = parse_number<std::size_t>(ends.back());
    if (ends.size() > 2 || !first || !last || *first > *last) return bad_list(list, fmt::format("\"{}\"", range));
    if (*last - *first >= most_hosts - hosts.size()) return bad_list(list, "more than 65536 hosts");
    for (std::size_t number = *first; number <= *last; ++number)
      hosts.push_back(fmt::format("{}{:0{}}", prefix, number, ends.front().size()));
  }
  return {};
}

}  // namespace

// Note [Tasks of Slurm]
// Every task that srun starts is a rank. A batch script has SLURM_PROCID=0 and SLURM_NTASKS=N, too, and is one process:
// sbatch sets ENVIRONMENT=BATCH, which the steps of the script inherit, but only they have a SLURM_STEP_ID. The shell
// of salloc has the job's SLURM_NTASKS, and SLURM_STEP_NUM_TASKS=1: where both are set, the step's number is the true
// one.
bool is_slurm_task(const EnvironmentLookup& lookup) {
  return lookup("SLURM_PROCID") && (lookup("ENVIRONMENT") != "BATCH" || lookup("SLURM_STEP_ID"));
}

std::optional<int> slurm_tasks_on_host(std::string_view list, int host) {
  for (const std::string& part : split(list, ',')) {
    const auto open = part.find("(x");
    const auto tasks = count_in(std::string_view(part).substr(0, open));
    std::optional<int> hosts = 1;
    if (open != std::string::npos)
      hosts = part.ends_with(')') ? count_in(std::string_view(part).substr(open + 2, part.size() - open - 3))
                                  : std::nullopt;
    if (!tasks || !hosts) return std::nullopt;
    if (host < *hosts) return tasks;
    host -= *hosts;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> expand_host_list(std::string_view list) {
  std::vector<std::string> hosts;
  std::size_t position = 0;
  while (position < list.size()) {
    const std::size_t stop = std::min(list.find_first_of(",[", position), list.size());
    const std::string_view prefix = list.substr(position, stop - position);
    if (stop == list.size() || list[stop] == ',') {
      if (prefix.empty()) return bad_list(list, "an empty name");
      hosts.emplace_back(prefix);
      position = stop + 1;
      continue;
    }
    const std::size_t close = list.find(']', stop);
    if (close == std::string_view::npos) return bad_list(list, "a [ without its ]");
    if (close + 1 < list.size() && list[close + 1] != ',') return bad_list(list, "more text after a ]");
    if (auto expanded = expand_ranges(list, prefix, list.substr(stop + 1, close - stop - 1), hosts); !expanded)
      return expanded.error();
    position = close + 2;
  }
  if (hosts.empty()) return bad_list(list, "it is empty");
  return hosts;
}

std::optional<std::chrono::system_clock::time_point> slurm_job_end(const Environment& environment) {
  const auto text = look_up(environment, {"SLURM_JOB_END_TIME"});
  const auto seconds = text ? parse_number<std::int64_t>(*text) : std::nullopt;
  if (!seconds || *seconds <= 0) return std::nullopt;
  return std::chrono::system_clock::time_point(std::chrono::seconds(*seconds));
}

Result<std::optional<SlurmTask>> slurm_task(const Environment& environment) {
  const auto lookup = [&](std::string_view name) { return look_up(environment, {std::string(name).c_str()}); };
  if (!is_slurm_task(lookup)) return std::optional<SlurmTask>();

  SlurmTask task;
  const auto rank = number_of(environment, {"SLURM_PROCID"}, 0);
  const auto tasks = number_of(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, 1);
  const auto local_rank = number_of(environment, {"SLURM_LOCALID"}, 0);
  const auto host = number_of(environment, {"SLURM_NODEID"}, 0);
  const auto hosts = number_of(environment, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, 1);
  for (const auto* value : {&rank, &tasks, &local_rank, &host, &hosts})
    if (!*value) return value->error();
  task.rank = *rank;
  task.task_count = *tasks;
  task.local_rank = *local_rank;
  task.host_index = *host;
  task.host_count = *hosts;
  if (task.rank >= task.task_count || task.host_index >= task.host_count || task.host_count > task.task_count)
    return Error{Error::Kind::bad_input,
                 fmt::format("SLURM_PROCID={}, SLURM_NTASKS={}, SLURM_NODEID={} and SLURM_NNODES={} do not agree",
                             task.rank, task.task_count, task.host_index, task.host_count),
                 "run under srun, or unset the SLURM_ variables"};

  if (const auto list = look_up(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})) {
    const auto count = slurm_tasks_on_host(*list, task.host_index);
    if (!count)
      return Error{
          Error::Kind::bad_input,
          fmt::format("SLURM_TASKS_PER_NODE=\"{}\" does not say how many tasks host {} has", *list, task.host_index),
          "run under srun, or unset the SLURM_ variables"};
    task.local_task_count = *count;
  } else {
    task.local_task_count = (task.task_count + task.host_count - 1) / task.host_count;
  }

  if (const auto list = look_up(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})) {
    const auto names = expand_host_list(*list);
    if (!names) return names.error();
    task.first_host = names->front();
  } else if (task.host_count > 1) {
    return Error{Error::Kind::bad_input, "SLURM_JOB_NODELIST is not set, and the step has several hosts",
                 "name the first host: --master-addr ADDRESS"};
  }
  task.job = look_up(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}).value_or("0");
  if (const auto step = look_up(environment, {"SLURM_STEP_ID"})) task.job += "." + *step;
  task.end = slurm_job_end(environment);
  return std::optional(task);
}

std::uint16_t slurm_port(std::string_view job) {
  // Below the range from which kernels give out ports by themselves (32768 and up), above the well-known ones.
  constexpr std::uint32_t first = 20000, count = 12000;
  std::uint32_t hash = 2166136261U;  // FNV-1a: the same on every host, whatever it runs
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return static_cast<std::uint16_t>(first + hash % count);
}

}  // namespace muster::launch

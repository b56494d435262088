// Many processes that compete for a few GPUs while some are killed, and a witness of double grants that bypasses the
// lease layer: one slot per GPU in shared memory.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lease/lease.hpp"

namespace muster::lease {

struct Contention {
  int contenders = 200;
  int gpus = 8;
  int rounds = 1000;  // each: one kill -9, then as many grants as there are GPUs
  std::uint64_t seed = 1;
  std::filesystem::path folder;

  struct Outcome {
    std::uint64_t grants = 0;
    std::uint64_t refusals = 0;
    std::uint64_t kills = 0;
    std::uint64_t kills_of_holders = 0;
    std::uint64_t double_grants = 0;
    std::uint64_t errors = 0;  // neither granted nor refused
    std::uint64_t leaks = 0;   // what was not available at the end, and tickets that stayed
    std::uint64_t stalls = 0;  // rounds without any grant for a minute

    bool is_clean() const { return double_grants == 0 && errors == 0 && leaks == 0 && stalls == 0; }
  };

  Outcome run() const;
};

namespace contention {

// Zero is no process. Each process has its own number, which is never reused.
struct Board {
  static constexpr std::size_t most_gpus = 64;
  static constexpr std::size_t most_processes = 1U << 16U;
  std::array<std::atomic<std::uint32_t>, most_gpus> owner;
  std::array<std::atomic<bool>, most_processes> killed;  // set BEFORE the kill: a successor may find the victim's slot
  std::atomic<std::uint64_t> grants, refusals, double_grants, errors;
  std::atomic<bool> over;
};

class SharedBoard {
 public:
  SharedBoard() {
    void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
    board_ = new (memory) Board();
  }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  Board& operator*() const { return *board_; }
  Board* operator->() const { return board_; }

 private:
  Board* board_ = nullptr;
};

inline std::vector<ResourceName> names(int gpus) {
  std::vector<ResourceName> all;
  for (int gpu = 0; gpu < gpus; ++gpu) all.push_back("GPU-" + std::to_string(gpu));
  return all;
}

inline std::size_t slot(const ResourceName& name) { return static_cast<std::size_t>(std::stoi(name.substr(4))); }

// Between a grant and its release; what it finds in the slots is the evidence.
template <class Chance>
void hold(const Lease& lease, Board& board, std::uint32_t self, Chance& chance) {
  for (const ResourceName& name : lease.resources()) {
    const std::uint32_t before = board.owner[slot(name)].exchange(self);
    if (before != 0 && !board.killed[before]) ++board.double_grants;
  }
  ++board.grants;
  if (chance() % 4 != 0) ::usleep(static_cast<useconds_t>(chance() % 1500));
  for (const ResourceName& name : lease.resources()) {
    std::uint32_t expected = self;
    if (!board.owner[slot(name)].compare_exchange_strong(expected, 0)) ++board.double_grants;
  }
}

// One contender's life: fixed sets and any free ones, with and without waiting, with readers in between.
inline void contend(const Contention& contention, Board& board, std::uint32_t self) {
  std::mt19937_64 chance(contention.seed * 1'000'003 + self);
  LeaseTable table(contention.folder);
  const auto all = names(contention.gpus);
  while (!board.over) {
    auto candidates = all;
    std::shuffle(candidates.begin(), candidates.end(), chance);
    const bool greedy = chance() % 16 == 0;
    const std::size_t count = greedy ? all.size() : 1 + chance() % std::max<std::size_t>(1, all.size() / 2);
    const bool fixed_set = chance() % 2 == 0;
    if (fixed_set) candidates.resize(count);
    if (chance() % 8 == 0) static_cast<void>(table.holder_of(all[chance() % all.size()]));
    const auto choose = [&](const Occupancy& occupancy) -> Result<std::vector<ResourceName>> {
      std::vector<ResourceName> chosen;
      for (const ResourceName& name : candidates)
        if (chosen.size() < count && !occupancy.holder_of(name) && !occupancy.earlier_waiter_for(name))
          chosen.push_back(name);
      if (chosen.size() < count) return Error{Error::Kind::refused, "too few are free", ""};
      return chosen;
    };
    const bool waits = chance() % 4 != 0;
    const auto wait = waits ? std::optional<std::chrono::milliseconds>(600'000) : std::nullopt;
    const auto lease = table.acquire(candidates, choose, Purpose{"contend"}, wait);
    if (lease)
      hold(*lease, board, self, chance);
    else if (lease.error().kind == Error::Kind::refused)
      ++board.refusals;
    else if (board.errors++ == 0)
      ::dprintf(STDERR_FILENO, "%s\n", lease.error().what.c_str());  // the first says what is wrong
    if (!lease) ::usleep(static_cast<useconds_t>(5000 + chance() % 20000));
  }
}

struct Process {
  pid_t pid = 0;
  std::uint32_t number = 0;
};

inline Process start(const Contention& contention, Board& board, std::uint32_t number) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed test leaves no contenders behind
    if (::getppid() == parent) contend(contention, board, number);
    ::_exit(0);
  }
  return {pid, number};
}

inline void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// The next victim: half of the time one that holds something.
template <class Chance>
std::size_t victim(const std::vector<Process>& processes, const Board& board, int gpus, Chance& chance) {
  if (chance() % 2 == 0) {
    const auto owner = board.owner[chance() % static_cast<std::uint64_t>(gpus)].load();
    for (std::size_t at = 0; owner != 0 && at < processes.size(); ++at)
      if (processes[at].number == owner) return at;
  }
  return chance() % processes.size();
}

}  // namespace contention

inline Contention::Outcome Contention::run() const {
  using namespace contention;
  const SharedBoard board;
  std::mt19937_64 chance(seed);
  Outcome outcome;
  std::uint32_t next_number = 1;
  std::vector<Process> processes;
  for (int at = 0; at < contenders; ++at) processes.push_back(start(*this, *board, next_number++));

  for (int round = 0; round < rounds && outcome.stalls == 0; ++round) {
    const std::size_t at = victim(processes, *board, gpus, chance);
    board->killed[processes[at].number] = true;
    ::kill(processes[at].pid, SIGKILL);
    ++outcome.kills;
    for (int gpu = 0; gpu < gpus; ++gpu)
      if (board->owner[static_cast<std::size_t>(gpu)] == processes[at].number) {
        ++outcome.kills_of_holders;
        break;
      }
    reap(processes[at].pid);
    processes[at] = start(*this, *board, next_number++);
    // The table keeps working, whichever process was killed.
    const std::uint64_t goal = board->grants + static_cast<std::uint64_t>(gpus);
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (board->grants < goal && outcome.stalls == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      if (std::chrono::steady_clock::now() > end) ++outcome.stalls;
    }
  }

  board->over = true;
  for (const Process& process : processes) {
    if (outcome.stalls > 0) ::kill(process.pid, SIGKILL);
    reap(process.pid);
  }
  LeaseTable table(folder);
  for (const ResourceName& name : names(gpus))
    if (!table.acquire(std::vector<ResourceName>{name}, Purpose{"is it free"})) ++outcome.leaks;
  for ([[maybe_unused]] const auto& ticket : std::filesystem::directory_iterator(folder / "waiting")) ++outcome.leaks;
  outcome.grants = board->grants;
  outcome.refusals = board->refusals;
  outcome.double_grants = board->double_grants;
  outcome.errors = board->errors;
  return outcome;
}

}  // namespace muster::lease

#include "lease/waiting_line.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <ranges>

#include "system/process.hpp"
#include "base/text.hpp"
#include "lease/lock_file.hpp"
#include "lease/record.hpp"
#include "lease/system_failure.hpp"

namespace muster::lease {
namespace {

constexpr std::size_t sequence_digits = 20;
constexpr std::uint64_t last_sequence = std::uint64_t{1} << 62U;  // what lies above was never handed out by us
// Nobody gets that far by counting: a ticket beyond it was made by hand, and counts only while somebody holds it.
constexpr std::uint64_t implausible_sequence = std::uint64_t{1} << 52U;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

struct TicketName {
  std::uint64_t sequence = 0;
  int depth = 0;
  std::string text;
};

// "00000000000000000007", or "00000000000000000007+1" for one inside another lease.
std::optional<TicketName> parse_ticket_name(std::string_view text) {
  if (text.size() < sequence_digits) return std::nullopt;
  const auto sequence = parse_number<std::uint64_t>(text.substr(0, sequence_digits));
  if (!sequence || *sequence > last_sequence) return std::nullopt;
  const std::string_view rest = text.substr(sequence_digits);
  if (rest.empty()) return TicketName{*sequence, 0, std::string(text)};
  const auto depth = rest.front() == '+' ? parse_number<int>(rest.substr(1)) : std::nullopt;
  if (!depth) return std::nullopt;
  return TicketName{*sequence, *depth, std::string(text)};
}

std::vector<TicketName> list_tickets(const LeaseFolder& folder) {
  std::vector<TicketName> tickets;
  const int number = ::openat(folder.waiting.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseFolder> entries(number >= 0 ? ::fdopendir(number) : nullptr);
  if (!entries) {
    if (number >= 0) ::close(number);
    return tickets;
  }
  while (const dirent* entry = ::readdir(entries.get()))
    if (auto ticket = parse_ticket_name(entry->d_name)) tickets.push_back(std::move(*ticket));
  std::ranges::sort(tickets, {}, &TicketName::sequence);
  return tickets;
}

std::string read_all(const FileDescriptor& file) {
  constexpr std::size_t most = 1U << 20U;
  std::string text;
  std::array<char, 4096> block;
  while (text.size() < most) {
    const ssize_t got = ::pread(file.number(), block.data(), block.size(), static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  return text;
}

// The waiter, if it is alive.
std::optional<Waiter> look_at(const LeaseFolder& folder, const std::string& ticket) {
  const FileDescriptor file = open_to_look(folder.waiting, ticket);
  if (!file || !is_locked(file)) return std::nullopt;
  const std::string text = read_all(file);
  Waiter waiter;
  if (auto record = parse_record(text)) waiter.who = std::move(record->holder);
  struct stat status {};
  if (::fstat(file.number(), &status) == 0) waiter.who.user = user_name(status.st_uid);  // who made it, whatever it says
  waiter.candidates = parse_candidates(text);
  return waiter;
}

// Behind all who wait.
Result<std::uint64_t> next_sequence(const LeaseFolder& folder) {
  const auto tickets = list_tickets(folder);
  for (const TicketName& ticket : std::views::reverse(tickets)) {
    if (ticket.sequence >= implausible_sequence) {
      const FileDescriptor file = open_to_look(folder.waiting, ticket.text);
      if (!file || !is_locked(file)) continue;
    }
    if (ticket.sequence < last_sequence) return ticket.sequence + 1;
    const std::filesystem::path path = folder.path / "waiting" / ticket.text;
    return Error{Error::Kind::failed, fmt::format("nobody can wait in line behind {}", path.string()),
                 fmt::format("end the process that holds it (fuser -v {0}) and remove the file", path.string())};
  }
  return std::uint64_t{1};
}

std::string ticket_name(std::uint64_t sequence, int depth) {
  return depth == 0 ? fmt::format("{:020}", sequence) : fmt::format("{:020}+{}", sequence, depth);
}

bool write_all(const FileDescriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(file.number(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

bool Waiter::could_use(const ResourceName& resource) const {
  return !candidates || std::ranges::find(*candidates, resource) != candidates->end();
}

Result<Ticket> Ticket::take(const LeaseFolder& folder, int depth, const std::vector<ResourceName>& candidates,
                            const Purpose& purpose) {
  const auto next = next_sequence(folder);
  if (!next) return next.error();
  Ticket ticket;
  ticket.depth_ = depth;
  constexpr int tries = 100;  // numbers in a row whose tickets are dead and cannot be removed
  for (int attempt = 0; attempt < tries && !ticket.file_; ++attempt) {
    ticket.sequence_ = *next + static_cast<std::uint64_t>(attempt);
    ticket.name_ = ticket_name(ticket.sequence_, depth);
    ticket.file_ = FileDescriptor(::openat(folder.waiting.number(), ticket.name_.c_str(),
                                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!ticket.file_ && errno != EEXIST) break;
  }
  const std::filesystem::path path = folder.path / "waiting" / ticket.name_;
  if (!ticket.file_) return system_failure("create", path, errno);
  ticket.waiting_folder_ = folder.waiting.number();
  ticket.owner_ = ::getpid();
  ::fchmod(ticket.file_.number(), 0666);  // others must be able to see whether we live
  const auto locked = lock_within(ticket.file_, std::chrono::seconds(1), path);
  if (!locked) return locked.error();
  if (!*locked) return system_failure("lock", path, EWOULDBLOCK);
  // On a full disk the ticket stays without text, and then stands for every candidate.
  if (!write_all(ticket.file_, to_ticket_text(describe_this_process(purpose), candidates))) [[maybe_unused]]
    const int ignored = ::ftruncate(ticket.file_.number(), 0);
  return ticket;
}

Ticket::~Ticket() {
  if (!file_ || owner_ != ::getpid()) return;
  ::unlinkat(waiting_folder_, name_.c_str(), 0);
  unlock(file_);
}

LineBefore::LineBefore(const LeaseFolder& folder, int depth, std::optional<std::uint64_t> place) : folder_(folder) {
  const auto tickets = list_tickets(folder);
  for (const TicketName& ticket : std::views::reverse(tickets))
    if (ticket.depth == depth && (!place || ticket.sequence < *place)) unread_.push_back(ticket.text);
}

std::optional<Holder> LineBefore::first_that_could_use(const ResourceName& resource) {
  for (const Waiter& waiter : waiters_)
    if (waiter.could_use(resource)) return waiter.who;
  while (!unread_.empty()) {
    const std::string ticket = std::move(unread_.back());
    unread_.pop_back();
    if (auto waiter = look_at(folder_, ticket)) {
      waiters_.push_back(std::move(*waiter));
      if (waiters_.back().could_use(resource)) return waiters_.back().who;
    } else {
      // In a sticky folder only its owner or root may; a dead ticket that stays costs one look and blocks nobody.
      ::unlinkat(folder_.waiting.number(), ticket.c_str(), 0);
    }
  }
  return std::nullopt;
}

Outlook::Outlook(const LeaseFolder& folder, const Ticket& ticket, std::vector<ResourceName> candidates)
    : folder_(folder), ticket_(ticket), candidates_(std::move(candidates)) {}

bool Outlook::is_hopeless() {
  const auto lives = [&](const std::string& name) {
    const FileDescriptor file = open_to_look(folder_.waiting, name);
    return file && is_locked(file);
  };
  if (!blockers_.empty() && std::ranges::all_of(blockers_, lives)) return true;
  blockers_.clear();
  std::vector<ResourceName> left = candidates_;
  // From the nearest back: the waiter just before us is the one most likely to stay longest.
  const auto tickets = list_tickets(folder_);
  for (const TicketName& ticket : std::views::reverse(tickets)) {
    if (ticket.sequence >= ticket_.sequence() || ticket.depth != ticket_.depth()) continue;
    const auto waiter = look_at(folder_, ticket.text);
    if (!waiter) continue;
    const auto covered = std::erase_if(left, [&](const ResourceName& name) { return waiter->could_use(name); });
    if (covered > 0) blockers_.push_back(ticket.text);
    if (left.empty() && !blockers_.empty()) return true;
  }
  blockers_.clear();
  return false;
}

}  // namespace muster::lease

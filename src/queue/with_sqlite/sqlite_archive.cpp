// The index as a SQLite database in WAL mode: archive.sqlite. Whoever looks brings it up to date. Where it cannot be
// used (a full disk, a damaged or locked file), the archive is read as a whole.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "system/file_descriptor.hpp"
#include "queue/archive_index.hpp"

namespace muster::queue {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct EndStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, EndStatement>;

// Which file was read, and how far.
struct Progress {
  std::string file;  // device, inode and first bytes: an archive that was written again is another
  std::int64_t read = 0;
};

std::string identity_of(int archive, const struct stat& facts) {
  constexpr std::size_t first_bytes = 64;
  std::string head(first_bytes, '\0');
  const ssize_t got = ::pread(archive, head.data(), head.size(), 0);
  head.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return fmt::format("{} {} {}", facts.st_dev, facts.st_ino, head.substr(0, head.find(',')));
}

class SqliteArchive : public ArchiveIndex {
 public:
  explicit SqliteArchive(StateFolder folder) : folder_(std::move(folder)), scanned_(folder_) {}

  Result<std::vector<ArchivedJob>> find(const std::unordered_set<std::string>& ids) override {
    for (int tries = 2; tries > 0; --tries) {
      if (!bring_up_to_date()) break;
      if (auto found = find_indexed(ids)) return std::move(*found);
      run("DELETE FROM progress");  // it gave a wrong place: it is made again
    }
    return scanned_.find(ids);
  }

  Result<std::size_t> count() override {
    if (!bring_up_to_date()) return scanned_.count();
    const Statement statement = prepare("SELECT count(*) FROM jobs");
    if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return scanned_.count();
    return static_cast<std::size_t>(sqlite3_column_int64(statement.get(), 0));
  }

 private:
  bool open() {
    if (database_) return true;
    constexpr int patience_ms = 2000;
    sqlite3* opened = nullptr;
    const std::string path = (folder_.path() / "archive.sqlite").string();
    const int failure = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    database_.reset(opened);
    if (failure != SQLITE_OK) return give_up();
    sqlite3_busy_timeout(opened, patience_ms);
    return (run("PRAGMA journal_mode=WAL") && run("PRAGMA synchronous=NORMAL") &&
            run("CREATE TABLE IF NOT EXISTS jobs(id TEXT PRIMARY KEY, at INTEGER, length INTEGER) WITHOUT ROWID") &&
            run("CREATE TABLE IF NOT EXISTS progress(file TEXT, read INTEGER)")) ||
           give_up();
  }

  bool give_up() {
    database_.reset();
    return false;
  }

  bool run(const char* order) const {
    return sqlite3_exec(database_.get(), order, nullptr, nullptr, nullptr) == SQLITE_OK;
  }

  Statement prepare(const char* order) const {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(database_.get(), order, -1, &statement, nullptr);
    return Statement(statement);
  }

  Progress progress() const {
    const Statement statement = prepare("SELECT file, read FROM progress");
    if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return {};
    const auto* file = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
    return {file == nullptr ? "" : file, sqlite3_column_int64(statement.get(), 1)};
  }

  bool bring_up_to_date() {
    const FileDescriptor archive(::open(folder_.archive().c_str(), O_RDONLY | O_CLOEXEC));
    struct stat facts = {};
    if (!archive || ::fstat(archive.number(), &facts) != 0 || facts.st_size == 0) return false;  // nothing to index
    if (!open()) return false;
    const std::string file = identity_of(archive.number(), facts);
    if (const Progress before = progress(); before.file == file && before.read == facts.st_size) return true;
    if (!run("BEGIN IMMEDIATE")) return false;
    const bool is_done = read_on(archive, file, facts.st_size) && run("COMMIT");
    if (!is_done) run("ROLLBACK");
    return is_done;
  }

  bool read_on(const FileDescriptor& archive, const std::string& file, std::int64_t size) {
    Progress known = progress();  // once more: another process may have been faster
    if (known.file != file || known.read > size) {
      if (!run("DELETE FROM jobs")) return false;
      known = {file, 0};
    }
    std::string text(static_cast<std::size_t>(size - known.read), '\0');
    if (::pread(archive.number(), text.data(), text.size(), known.read) != static_cast<ssize_t>(text.size()))
      return false;
    const Statement add = prepare("INSERT OR IGNORE INTO jobs(id, at, length) VALUES(?, ?, ?)");
    bool is_good = add != nullptr;
    for_each_line(text, 0, [&](std::string_view id, const ArchivePlace& place) {
      if (!is_good) return;
      sqlite3_bind_text(add.get(), 1, id.data(), static_cast<int>(id.size()), SQLITE_STATIC);
      sqlite3_bind_int64(add.get(), 2, known.read + static_cast<std::int64_t>(place.offset));
      sqlite3_bind_int64(add.get(), 3, static_cast<std::int64_t>(place.length));
      is_good = sqlite3_step(add.get()) == SQLITE_DONE;
      sqlite3_reset(add.get());
    });
    const std::size_t last = text.rfind('\n');
    return is_good &&
           set_progress({file, known.read + (last == std::string::npos ? 0 : static_cast<std::int64_t>(last) + 1)});
  }

  bool set_progress(const Progress& progress) const {
    if (!run("DELETE FROM progress")) return false;
    const Statement set = prepare("INSERT INTO progress(file, read) VALUES(?, ?)");
    if (!set) return false;
    sqlite3_bind_text(set.get(), 1, progress.file.data(), static_cast<int>(progress.file.size()), SQLITE_STATIC);
    sqlite3_bind_int64(set.get(), 2, progress.read);
    return sqlite3_step(set.get()) == SQLITE_DONE;
  }

  // Nothing when the index is wrong.
  std::optional<std::vector<ArchivedJob>> find_indexed(const std::unordered_set<std::string>& ids) const {
    const Statement statement = prepare("SELECT at, length FROM jobs WHERE id = ?");
    if (!statement) return std::nullopt;
    std::vector<ArchivedJob> found;
    for (const std::string& id : ids) {
      sqlite3_reset(statement.get());
      sqlite3_bind_text(statement.get(), 1, id.data(), static_cast<int>(id.size()), SQLITE_STATIC);
      if (sqlite3_step(statement.get()) != SQLITE_ROW) continue;
      const ArchivePlace place{static_cast<std::size_t>(sqlite3_column_int64(statement.get(), 0)),
                               static_cast<std::size_t>(sqlite3_column_int64(statement.get(), 1))};
      auto job = read_archived_at(folder_, place);
      if (!job || job->record.job.id.text != id) return std::nullopt;
      found.push_back(std::move(*job));
    }
    return found;
  }

  StateFolder folder_;
  ScannedArchive scanned_;
  Database database_;
};

}  // namespace

std::unique_ptr<ArchiveIndex> open_archive_index(const StateFolder& folder) {
  return std::make_unique<SqliteArchive>(folder);
}

}  // namespace muster::queue

#include "checkpoint/mapped_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "system/files.hpp"

namespace muster::checkpoint {

Result<MappedFile> MappedFile::map(const RegularFile& file) {
  const auto size = file.current_size();
  if (!size) return size.error();
  if (*size != file.size())
    return Error{
        Error::Kind::bad_input,
        fmt::format("{} had {} bytes when it was opened, and now has {}", file.path().string(), file.size(), *size),
        "wait until it is written, and start again"};
  if (*size == 0) return MappedFile(nullptr, 0);
  void* start = ::mmap(nullptr, *size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (start == MAP_FAILED)
    return Error{Error::Kind::failed, fmt::format("cannot map {}: {}", file.path().string(), system_reason()), ""};
  return MappedFile(start, *size);
}

MappedFile::~MappedFile() {
  if (start_ != nullptr) ::munmap(start_, size_);
}

void MappedFile::release(std::uint64_t begin, std::uint64_t end) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  begin = (begin + page - 1) / page * page;
  if (end < size_) end = end / page * page;  // the last page of the file is ours alone
  if (begin < end) ::madvise(static_cast<std::byte*>(start_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace muster::checkpoint

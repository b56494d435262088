#include "queue/command_book.hpp"

#include <algorithm>

#include "system/files.hpp"
#include "base/text.hpp"

namespace muster::queue {

std::optional<Batch> read_batch(const std::filesystem::path& file) {
  const auto text = read_file(file);
  if (!text) return std::nullopt;
  auto request = parse_request(*text, file.string());
  if (!request) return std::nullopt;
  auto* batch = std::get_if<Batch>(&*request);
  return batch == nullptr ? std::nullopt : std::optional(std::move(*batch));
}

void CommandBook::add(Batch batch, const std::function<bool(const schedule::JobId&)>& is_open) {
  const auto shared = std::make_shared<const Batch>(std::move(batch));
  for (std::size_t position = 0; position < shared->jobs.size(); ++position)
    if (is_open(shared->jobs[position].job.id))
      commands_.insert_or_assign(shared->jobs[position].job.id.text, BookedCommand{shared, position});
}

const BookedCommand* CommandBook::find(const schedule::JobId& id) const {
  const auto found = commands_.find(id.text);
  return found == commands_.end() ? nullptr : &found->second;
}

BatchFiles::BatchFiles(std::filesystem::path folder) {
  for (const auto& file : lines_files_in(folder))
    if (const auto first = parse_number<std::uint64_t>(file.stem().string())) files_.emplace(*first, file);
}

const Batch* BatchFiles::holding(const schedule::JobId& id) {
  const auto number = parse_number<std::uint64_t>(id.text);
  auto after = number ? files_.upper_bound(*number) : files_.begin();
  if (after == files_.begin()) return nullptr;
  const std::filesystem::path& file = std::prev(after)->second;
  auto known = batches_.find(file);
  if (known == batches_.end()) known = batches_.emplace(file, read_batch(file)).first;
  const auto& batch = known->second;
  const bool holds = batch && std::ranges::any_of(batch->jobs, [&](const auto& queued) { return queued.job.id == id; });
  return holds ? &*batch : nullptr;
}

std::vector<std::string> BatchFiles::command_of(const schedule::JobId& id) {
  const Batch* batch = holding(id);
  if (batch == nullptr) return {};
  return std::ranges::find(batch->jobs, id, [](const QueuedJob& queued) { return queued.job.id; })->command;
}

}  // namespace muster::queue

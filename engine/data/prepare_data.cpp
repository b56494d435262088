#include "data/prepare_data.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/count_of.hpp"
#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "data/content_digest.hpp"
#include "data/dataset.hpp"
#include "data/judged_samples.hpp"
#include "data/newest_trajectories.hpp"
#include "data/ordered_work.hpp"
#include "data/sample_source.hpp"
#include "data/token_file.hpp"
#include "spec/codec.hpp"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using Phase = PreparationProgress::Phase;

// Which samples a source gives: part of the names of token files, and with them of the identity of runs. How a token
// file is laid out is not (token_file_version).
constexpr int sample_rules = 1;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What is prepared: the samples, and a text that is the same for the same samples before the tokenizer.
struct Source {
  std::unique_ptr<SampleSource> samples;
  std::string key;
  std::string name;            // for messages
  std::vector<RowFile> files;  // empty: none
};

// What every part of the work needs.
struct Work {
  const DataRequest& request;
  const chat::ModelText& text;
  fs::path folder;
  int threads;
  const OnPreparation& progress;

  void tell(Phase phase, std::uint64_t done, std::uint64_t total) const {
    if (progress) progress({phase, done, total});
  }
};

Error cannot_use(const fs::path& folder, std::string_view reason) {
  return {Error::Kind::failed, fmt::format("cannot keep prepared data in {}: {}", folder.string(), reason),
          "set MUSTER_CACHE to a folder that can be written to"};
}

// Held by the process that makes a token file; the kernel releases it when the process ends.
Result<FileDescriptor> lock_for(const Work& work, const fs::path& place) {
  const fs::path path = place.string() + ".lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) return cannot_use(work.folder, system_reason());
  if (::flock(file.number(), LOCK_EX | LOCK_NB) == 0) return file;
  work.tell(Phase::waiting, 0, 0);
  while (::flock(file.number(), LOCK_EX) != 0)
    if (errno != EINTR) return cannot_use(work.folder, system_reason());
  return file;
}

// Left behind by a process that was killed; the caller has the lock.
void remove_leftovers(const fs::path& place) {
  std::error_code failure;
  for (fs::directory_iterator entry(place.parent_path(), failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(place.filename().string() + ".part-") ||
        name.starts_with(place.filename().string() + ".spool-"))
      fs::remove(entry->path(), ignored);
  }
}

// Takes pieces in order: samples into the file, bad lines into a list.
class PieceTaker {
 public:
  PieceTaker(const DataRequest& request, const SampleSource& source, TokenFileWriter& writer)
      : source_(source), writer_(writer), compares_(request.form == RowForm::comparisons) {
    if (request.form == RowForm::judgements) judged_.emplace(request.sequence_length);
    if (request.trajectories.most) newest_.emplace(*request.trajectories.most);
  }

  Result<void> take(std::size_t piece, const Result<MadePiece>& made) {
    if (!made) return made.error();
    if (const std::string name = source_.name_of(piece); name != name_) {
      name_ = name;
      lines_before_ = 0;
    }
    for (const MadePiece::BadLine& bad : made->bad)
      if (problems_.size() < most_bad_lines)
        problems_.push_back({fmt::format("{}:{}", name_, lines_before_ + bad.line), bad.what, bad.remedy});
    lines_before_ += made->lines;
    told_.cut += made->encoded.cut;
    told_.dropped += made->encoded.dropped;
    told_.conversations += made->encoded.conversations;
    told_.split += made->encoded.split;
    told_.poor += made->encoded.poor;
    told_.trajectories += std::ssize(made->encoded.trajectories);
    if (problems_.size() == most_bad_lines) return to_error(problems_);
    if (!problems_.empty()) return {};  // only to find the others
    if (newest_) {
      newest_->add(made->encoded);
      return {};
    }
    if (!judged_) return write(made->encoded.samples);
    std::vector<Sample> ready;
    for (const Sample& sample : made->encoded.samples) judged_->add(sample, ready);
    return write(ready);
  }

  Result<SampleCounts> finish(const std::string& name) {
    if (!problems_.empty()) return to_error(problems_);
    if (judged_) {
      std::vector<Sample> last;
      if (auto done = judged_->finish(last); !done) return done.error();
      if (auto written = write(last); !written) return written.error();
    }
    if (newest_) {
      if (auto written = write(newest_->samples()); !written) return written.error();
      told_.older = newest_->left_out();
      told_.trajectories -= told_.older;
    }
    if (samples_ == 0 && told_.poor > 0)
      return Error{Error::Kind::bad_input,
                   fmt::format("{} gives nothing to train on: {} earned less than sft.min_reward_threshold", name,
                               count_of(told_.poor, "trajectory", "trajectories")),
                   "a lower sft.min_reward_threshold, or sft.filter_low_reward=false"};
    if (samples_ == 0)
      return Error{Error::Kind::bad_input,
                   fmt::format("{} gives nothing to train on: {}", name,
                               compares_ ? fmt::format("{} had a text that is longer than training.sequence_length",
                                                       count_of(told_.dropped, "pair"))
                                         : fmt::format("{} had no token that is trained on",
                                                       count_of(told_.dropped, "sample"))),
                   "check the data, and whether training.sequence_length leaves room for the answers"};
    return writer_.commit(told_);
  }

 private:
  Result<void> write(const std::vector<Sample>& samples) {
    for (const Sample& sample : samples) {
      if (auto added = writer_.add(sample); !added) return added;
      ++samples_;
    }
    return {};
  }

  const SampleSource& source_;
  TokenFileWriter& writer_;
  bool compares_;  // pairs of whole texts
  std::string name_;
  std::int64_t lines_before_ = 0;  // of the file, before this piece
  std::int64_t samples_ = 0;
  std::optional<JudgedSamples> judged_;  // where answers are judged by themselves
  std::optional<NewestTrajectories> newest_;  // where the last ones alone are learnt from
  SampleCounts told_;
  std::vector<Problem> problems_;
};

Result<SampleCounts> make_file(const Work& work, const Source& source, const fs::path& place) {
  const auto encoder = SampleEncoder::make(work.text, work.request.sequence_length,
                                           {work.request.train_on, work.request.mode, work.request.trajectories});
  if (!encoder) return encoder.error();
  const auto before = stamp_of(source.files);
  if (!before) return before.error();
  auto writer = TokenFileWriter::create(place);
  if (!writer) return cannot_use(work.folder, writer.error().what);
  const SampleSource& samples = *source.samples;
  std::uint64_t done = 0, total = 0;
  for (std::size_t i = 0; i < samples.pieces(); ++i) total += samples.bytes_of(i);
  PieceTaker taker(work.request, samples, *writer);
  const auto taken = work_in_order(
      samples.pieces(), work.threads, [&](std::size_t piece) { return samples.make(piece, *encoder); },
      [&](std::size_t piece, const Result<MadePiece>& made) {
        done += samples.bytes_of(piece);
        work.tell(Phase::tokenizing, done, total);
        return taker.take(piece, made);
      });
  if (!taken) return taken.error();
  const auto after = stamp_of(source.files);
  if (!after) return after.error();
  if (*after != *before)
    return Error{Error::Kind::failed, fmt::format("{} changed while it was read", source.name),
                 "start again when nothing writes to it"};
  return taker.finish(source.name);
}

Result<PreparedFile> prepare(const Work& work, const Source& source) {
  Sha256 digest;
  const std::string key = fmt::format("token file {}\nsequence_length {}\ntext {}\n{}\n", sample_rules,
                                      work.request.sequence_length, work.text.identity(), source.key);
  digest.add(std::as_bytes(std::span(key)));
  if (work.request.form != RowForm::examples) digest.add(std::as_bytes(std::span(name(work.request.form))));
  const fs::path place = work.folder / (digest.finish().substr(0, 40) + ".tokens");
  const auto lock = lock_for(work, place);
  if (!lock) return lock.error();
  std::error_code ignored;
  if (fs::exists(place, ignored))
    if (const auto known = Dataset::open(place, Verification::everything, work.threads))
      return PreparedFile{place, known->counts(), true};
  remove_leftovers(place);
  const auto counts = make_file(work, source, place);
  if (!counts) return counts.error();
  return PreparedFile{place, *counts, false};
}

// What is learnt of rows where it is not their answers alone.
std::string choice_of(const DataRequest& request) {
  std::string text;
  if (request.mode != spec::SftMode::behavioral_cloning) text += fmt::format("\nmode {}", spec::write(request.mode));
  if (const auto& least = request.trajectories.least_reward) text += fmt::format("\nleast reward {}", *least);
  if (const auto& most = request.trajectories.most) text += fmt::format("\nlast {}", *most);
  return text;
}

Result<Source> file_source(const Work& work, const std::string& path) {
  auto files = find_row_files(path);
  if (!files) return files.error();
  std::uint64_t total = 0;
  for (const RowFile& file : *files) total += file.size;
  const auto digest = remembered_digest(*files, work.folder, work.threads,
                                        [&](std::uint64_t done) { work.tell(Phase::digesting, done, total); });
  if (!digest) return digest.error();
  std::string key = fmt::format("files {}\ntrain_on {}", *digest, spec::write(work.request.train_on)) + choice_of(work.request);
  return Source{source_of_files(*files, work.request.form), std::move(key), path, *files};
}

Result<Source> question_source(const ArithmeticSettings& settings, bool held_out, RowForm form) {
  auto questions = arithmetic_questions(settings);
  if (!questions) return questions.error();
  const std::string key = fmt::format("arithmetic {} {} {} {} {}", settings.operations, settings.digits,
                                      settings.held_out, settings.seed, held_out ? "held out" : "training");
  return Source{
      source_of_questions(std::move(held_out ? questions->held_out : questions->training), form), key, arithmetic_name,
      {}};
}

Result<Source> source_of(const Work& work, const std::string& path, bool held_out) {
  if (path == arithmetic_name) return question_source(work.request.arithmetic, held_out, work.request.form);
  if (path.starts_with("builtin:"))
    return Error{Error::Kind::bad_input, fmt::format("{} is not known", path), "built in: builtin:arithmetic"};
  return file_source(work, path);
}

Result<PreparedFile> prepare(const Work& work, const std::string& path, bool held_out) {
  const auto source = source_of(work, path, held_out);
  if (!source) return source.error();
  return prepare(work, *source);
}

Result<void> make_folder(const Work& work) {
  std::error_code failure;
  fs::create_directories(work.folder, failure);
  if (failure) return cannot_use(work.folder, failure.message());
  return {};
}

}  // namespace

fs::path cache_folder_from_environment() {
  if (const std::string cache = environment("MUSTER_CACHE"); !cache.empty()) return cache;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return fs::path(cache) / "muster";
  return fs::path(environment("HOME")) / ".cache" / "muster";
}

Result<PreparedData> prepare_data(const DataRequest& request, const chat::ModelText& text, const fs::path& cache, int threads,
                                  const OnPreparation& progress) {
  const Work work{request, text, cache / "data", threads, progress};
  if (auto made = make_folder(work); !made) return made.error();
  auto training = prepare(work, request.path, false);
  if (!training) return training.error();
  PreparedData prepared{std::move(*training), std::nullopt};
  if (!request.evaluation) return prepared;
  DataRequest everything = request;  // what is worth learning is not asked where nothing is learnt
  everything.trajectories = {};
  auto evaluation = prepare({everything, text, work.folder, threads, progress}, *request.evaluation, true);
  if (!evaluation) return evaluation.error();
  prepared.evaluation = std::move(*evaluation);
  return prepared;
}

Result<PreparedFile> prepare_evaluation(const DataRequest& request, const chat::ModelText& text, const fs::path& cache,
                                        int threads, const OnPreparation& progress) {
  const Work work{request, text, cache / "data", threads, progress};
  if (auto made = make_folder(work); !made) return made.error();
  return prepare(work, request.path, true);
}

}  // namespace muster::data

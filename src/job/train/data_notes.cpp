#include "job/train/data_notes.hpp"

#include <fmt/format.h>

#include "base/count_of.hpp"
#include "spec/codec.hpp"

namespace muster::job {
namespace {

// What a user's rows give.
std::string_view unit_of(spec::Algorithm algorithm) {
  if (spec::learns_from_pairs(algorithm)) return "pair";
  return algorithm == spec::Algorithm::kto ? "answer" : "sample";
}

std::string learnt_part(const data::SampleCounts& counts, const spec::RunSpec& spec) {
  if (spec.sft.mode == spec::SftMode::world_model) return "what is said to answers is trained on (sft.mode=world_model)";
  if (spec.sft.mode == spec::SftMode::combined)
    return fmt::format("answers and what is said to them are trained on (sft.mode=combined), {} and {} tokens",
                       counts.trained_tokens - counts.reply_tokens, counts.reply_tokens);
  const bool all = spec.data.train_on == spec::TrainedAnswers::all;
  return fmt::format("{} turn of the assistant is trained on (data.train_on={})", all ? "every" : "only the last",
                     spec::write(spec.data.train_on));
}

// Which part of conversations is trained on, and how much that is.
std::string conversation_note(const data::SampleCounts& counts, const spec::RunSpec& spec) {
  std::string note = fmt::format("{}: {}, {} of {} tokens", count_of(counts.conversations, "conversation"),
                                 learnt_part(counts, spec), counts.trained_tokens, counts.tokens);
  if (counts.split > 0)
    note += fmt::format(
        "; {} became one sample for each answer, because the chat template writes earlier turns differently once "
        "others follow",
        counts.split == counts.conversations ? "each" : fmt::format("{} of them", counts.split));
  return note;
}

}  // namespace

std::vector<std::string> data_notes(const data::PreparedData& data, const spec::RunSpec& spec) {
  std::vector<std::string> notes;
  const data::SampleCounts& counts = data.training.counts;
  const std::int64_t together = spec::samples_together(spec.training.algorithm);
  const std::string_view unit = unit_of(spec.training.algorithm);
  if (together == 1 && counts.conversations > 0) notes.push_back(conversation_note(counts, spec));
  if (counts.poor > 0)
    notes.push_back(fmt::format("{} left out: what they earned is less than sft.min_reward_threshold={}, or unknown",
                                count_of(counts.poor, "trajectory", "trajectories"), spec.sft.min_reward_threshold));
  if (counts.older > 0)
    notes.push_back(fmt::format("{} left out: the last {} are learnt from (sft.max_trajectories)",
                                count_of(counts.older, "trajectory", "trajectories"), counts.trajectories));
  if (counts.cut > 0)
    notes.push_back(fmt::format("{} of {} {} longer than training.sequence_length and lost {} end", counts.cut,
                                count_of(counts.samples / together, unit), counts.cut == 1 ? "is" : "are",
                                counts.cut == 1 ? "its" : "their"));
  if (counts.dropped > 0)
    notes.push_back(fmt::format("{} left out: {} training.sequence_length", count_of(counts.dropped, unit),
                                spec.reward_model_options() ? "one of its texts is longer than"
                                                            : "no token to train on within"));
  return notes;
}

}  // namespace muster::job

#include "doctor/generation_probe.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "job/worker_run.hpp"
#include "json/fields.hpp"
#include "system/files.hpp"
#include "wire/unix_socket.hpp"

namespace muster::doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr int many = 2;  // ranks
constexpr std::array prompts{"the quick brown fox", "jumps over", "a lazy dog", "and again"};

// Two layers with random weights, a few hundred kilobytes.
Json model_config(std::size_t vocabulary) {
  return {{"model_type", "llama"},          {"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", vocabulary},       {"hidden_size", 64},
          {"intermediate_size", 128},       {"num_hidden_layers", 2},
          {"num_attention_heads", 4},       {"num_key_value_heads", 2},
          {"max_position_embeddings", 128}, {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", true}};
}

// A token for each visible ASCII letter and one for the blank, in the alphabet of byte-level vocabularies.
Json letter_vocabulary() {
  Json vocabulary = Json::object();
  for (char letter = '!'; letter <= '~'; ++letter) vocabulary[std::string(1, letter)] = vocabulary.size();
  vocabulary["\u0120"] = vocabulary.size();
  return vocabulary;
}

Json letter_tokenizer(Json vocabulary) {
  const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", bytes},
          {"post_processor", nullptr},
          {"decoder", bytes},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", std::move(vocabulary)},
            {"merges", Json::array()}}}};
}

Result<void> write_model(const std::filesystem::path& folder) {
  const Json vocabulary = letter_vocabulary();
  for (const auto& [name, content] :
       {std::pair{"config.json", model_config(vocabulary.size())},
        std::pair{"tokenizer.json", letter_tokenizer(vocabulary)}, std::pair{"tokenizer_config.json", Json::object()}})
    if (auto written = write_file_atomically(folder / name, content.dump()); !written) return written;
  return {};
}

// Prompt i goes to rank i modulo the number of ranks, so that each has some.
class Exchange : public job::WorkerListener {
 public:
  explicit Exchange(int ranks) : ranks_(ranks) {}

  Result<wire::NextRequest> next_request(int rank) override {
    const auto [place, first] = next_.try_emplace(rank, rank);
    const int index = place->second;
    if (index >= static_cast<int>(prompts.size())) return wire::NextRequest(wire::EndOfRequests{});
    place->second += ranks_;
    const Json row{{"prompt", prompts[static_cast<std::size_t>(index)]}};
    return wire::NextRequest(wire::Request{index, row.dump()});
  }
  Result<void> on_event(const wire::Event& event) override {
    if (const auto* result = std::get_if<wire::TaskResult>(&event.body)) {
      const auto read = parse_fields<wire::GenerationResult>(result->row, "the result of the check");
      if (!read) return read.error();
      for (const wire::Answer& answer : read->samples) tokens_ += std::ssize(answer.tokens);
      rows_[result->index] = result->row;
      answering_.insert(event.rank);
    }
    return {};
  }

  const std::map<std::int64_t, std::string>& rows() const { return rows_; }
  std::int64_t tokens() const { return tokens_; }
  std::size_t answering() const { return answering_.size(); }

 private:
  int ranks_;
  std::map<int, int> next_;  // by rank: its next prompt
  std::map<std::int64_t, std::string> rows_;
  std::set<int> answering_;
  std::int64_t tokens_ = 0;
};

Result<Exchange> answer_prompts(host::Host& host, const std::string& model, int ranks) {
  wire::GenerateTask task;
  task.model.name = model;
  task.model.random_weights = true;
  task.model.dtype = spec::ElementType::float32;
  task.batch_size = 2;
  task.sequence_length = 64;
  task.max_new_tokens = 16;
  job::WorkerJob job;
  job.name = "doctor";
  job.ranks = ranks;
  job.assignment.task = task;
  job.assignment.seed = 1;
  Exchange exchange(ranks);
  const auto code = job::run_workers(host, job, exchange, [](const std::string&) {});
  if (!code) return code.error();
  if (*code != 0) return Error{Error::Kind::failed, fmt::format("ended with exit code {}", *code), "run it again"};
  return exchange;
}

Result<GenerationReport> run_check(const host::HostSources& sources) {
  auto folder = wire::PrivateFolder::create();
  if (!folder) return folder.error();
  if (auto written = write_model(folder->path()); !written) return written.error();
  host::Host host(sources);
  const auto alone = answer_prompts(host, folder->path().string(), 1);
  if (!alone) return alone.error();
  const auto together = answer_prompts(host, folder->path().string(), many);
  if (!together) return together.error();
  return GenerationReport{static_cast<int>(together->answering()), together->tokens(),
                          together->rows() == alone->rows() && alone->rows().size() == prompts.size()};
}

}  // namespace

std::optional<Result<GenerationReport>> probe_generation(const host::HostSources& sources) {
  if (!job::find_worker()) return std::nullopt;
  return run_check(sources);
}

}  // namespace muster::doctor

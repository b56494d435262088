// Computes logits, and gradients of a loss, for tests that compare them with other implementations.
//
//   logits_driver [MODEL DTYPE DEVICE THREADS [deterministic | in-host-memory | on-disk | FIRST LAST]]
//
// Loading LibTorch takes longer than most models of tests do: {"open": [such words]} takes another model in the place of the last.
// With FIRST and LAST it loads those layers alone, and only tells how many bytes of the checkpoint it read.
// in-host-memory and on-disk: no parameter stays on the device, but for the norms at its ends.
//
// Reads one JSON object a line: {"sequences": [[ids]], "chunks": [rows], "cache": true, "block_tokens": 64, "output":
// FILE} computes all sequences in one ragged batch (with a cache: in chunks of rows; the last entry repeats) and writes
// the logits of all rows, one sequence after another, as float32 to FILE. With "gradients": FOLDER the gradients of the
// summed cross-entropy of each next token go there, one file per parameter; "recompute": "nothing", "cheap" or "blocks"
// says what is not kept for them. With "weights": FOLDER the model computes with the numbers of such files from then
// on. Answers {"rows", "vocabulary", "bytes_read"}.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "checkpoint/tensor_source.hpp"
#include "model/causal_model.hpp"
#include "model/host_source.hpp"
#include "spec/model/model_source.hpp"
#include "tensor/element_types.hpp"

namespace {

using namespace muster;
using nlohmann::json;

void write_floats(const std::string& file, const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kFloat).to(at::kCPU).contiguous();
  std::ofstream out(file, std::ios::binary);
  out.write(static_cast<const char*>(values.const_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
}

// Sums of float32 for every parameter, written under the names that checkpoints have.
class GradientFiles : public model::ParameterAccess {
 public:
  explicit GradientFiles(const model::CausalModel& model) : parameters_(model.parameters()) {
    for (const model::Parameter& parameter : parameters_) {
      const at::Tensor& like = parameter.columns ? parameter.weight.storage : parameter.vector;
      sums_.push_back(at::zeros(parameter.shape(), like.options().dtype(at::kFloat)));
    }
  }
  void enter(model::UnitId) override {}
  void leave(model::UnitId) override {}
  tensor::GradientSum gradient(model::ParameterId id) override { return {sums_.at(static_cast<std::size_t>(id)), {}}; }
  void gradients_complete(model::UnitId) override {}

  void write(const std::string& folder) const {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      std::int64_t first = 0;
      for (const auto& [name, rows] : parameters_[i].pieces) {
        const at::Tensor piece = sums_[i].narrow(0, first, rows);
        write_floats(folder + "/" + name, parameters_[i].transposed ? piece.t() : piece);
        first += rows;
      }
    }
  }

 private:
  const std::vector<model::Parameter>& parameters_;
  std::vector<at::Tensor> sums_;
};

at::Tensor read_floats(const std::string& file, at::IntArrayRef shape) {
  at::Tensor values = at::empty(shape, at::kFloat);
  std::ifstream in(file, std::ios::binary);
  in.read(static_cast<char*>(values.mutable_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  return values;
}

void take_weights(model::CausalModel& model, const std::string& folder) {
  const std::vector<model::Parameter>& parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const model::Parameter& parameter = parameters[i];
    std::vector<at::Tensor> pieces;
    for (const auto& [name, rows] : parameter.pieces) {
      std::vector<std::int64_t> shape = parameter.shape();
      shape[0] = rows;
      if (parameter.transposed) std::ranges::reverse(shape);
      const at::Tensor values = read_floats(folder + "/" + name, shape);
      pieces.push_back(parameter.transposed ? values.t() : values);
    }
    const at::Tensor& like = parameter.columns ? parameter.weight.storage : parameter.vector;
    model.assign(model::ParameterId{i}, at::cat(pieces).contiguous().to(like.device()));
  }
}

using Sequences = std::vector<std::vector<std::int64_t>>;

at::Tensor whole(model::CausalModel& model, const Sequences& sequences, const json& request) {
  model::Batch batch;
  for (const auto& sequence : sequences) {
    const auto length = static_cast<std::int64_t>(sequence.size());
    batch.tokens.insert(batch.tokens.end(), sequence.begin(), sequence.end());
    batch.parts.push_back({length, 0, length});
  }
  const model::Pass pass = model.prepare(batch, nullptr);
  if (!request.contains("gradients")) return model.logits(model.forward(pass, model.embed(pass)));
  const std::map<std::string, model::Recompute> levels{
      {"nothing", model::Recompute::nothing}, {"cheap", model::Recompute::cheap}, {"blocks", model::Recompute::blocks}};
  model::ModelTape tape{levels.at(request.value("recompute", "nothing")), {}, {}};
  GradientFiles files(model);
  const at::Tensor normed = model.final_norm(model.forward(pass, tape, files));
  const at::Tensor logits = model.head_logits(normed);
  at::Tensor gradient = at::softmax(logits.to(at::kFloat), -1);
  std::int64_t row = 0;
  for (const auto& sequence : sequences) {
    for (std::size_t i = 0; i + 1 < sequence.size(); ++i, ++row) gradient[row][sequence[i + 1]] -= 1;
    gradient[row++].zero_();  // nothing follows the last token
  }
  const at::Tensor from_head =
      model.head_backward(normed, gradient.to(logits.scalar_type()), pass.sequence_rows, files);
  model.backward(pass, tape, model.final_norm_backward(tape, from_head, files), files);
  files.write(request["gradients"]);
  return logits;
}

at::Tensor logits_of(model::CausalModel& model, const model::Pass& pass) {
  return model.logits(model.forward(pass, model.embed(pass)));
}

at::Tensor chunked(model::CausalModel& model, const Sequences& sequences, const json& request) {
  const std::int64_t block_tokens = request.value("block_tokens", 64);
  const auto chunks = request["chunks"].get<std::vector<std::int64_t>>();
  std::int64_t blocks = 0;
  for (const auto& sequence : sequences)
    blocks += (static_cast<std::int64_t>(sequence.size()) + block_tokens - 1) / block_tokens;
  model::KeyValueCache cache(model.cache_shape(blocks, block_tokens));
  std::vector<std::vector<std::int64_t>> blocks_of(sequences.size());
  std::vector<std::vector<at::Tensor>> rows(sequences.size());
  std::int64_t next_block = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s)
    for (std::size_t held = 0; held < sequences[s].size(); held += static_cast<std::size_t>(block_tokens))
      blocks_of[s].push_back(next_block++);
  std::vector<std::int64_t> done(sequences.size());
  for (std::size_t round = 0;; ++round) {
    const std::int64_t most = chunks[std::min(round, chunks.size() - 1)];
    model::Batch batch;
    std::vector<std::size_t> owners;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const auto length = static_cast<std::int64_t>(sequences[s].size());
      const std::int64_t count = std::min(most, length - done[s]);
      if (count == 0) continue;
      const auto first = sequences[s].begin() + done[s];
      batch.tokens.insert(batch.tokens.end(), first, first + count);
      batch.parts.push_back({count, done[s], length, blocks_of[s]});
      owners.push_back(s);
      done[s] += count;
    }
    if (batch.parts.empty()) break;
    const at::Tensor logits = logits_of(model, model.prepare(batch, &cache));
    std::int64_t row = 0;
    for (std::size_t i = 0; i < owners.size(); ++i) {
      rows[owners[i]].push_back(logits.narrow(0, row, batch.parts[i].rows));
      row += batch.parts[i].rows;
    }
  }
  std::vector<at::Tensor> all;
  for (const auto& parts : rows) all.insert(all.end(), parts.begin(), parts.end());
  return at::cat(all);
}

template <class T>
T need(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n{}\n", result.error().what, result.error().remedy);
  std::exit(2);
}

using Words = std::vector<std::string>;

// Computes with one model; returns the words of the next, or none at the end of the input.
Words serve(const Words& words) {
  const std::map<std::string, spec::ElementType> types{{"float32", spec::ElementType::float32},
                                                       {"bfloat16", spec::ElementType::bfloat16},
                                                       {"float16", spec::ElementType::float16}};
  const spec::ElementType type = types.at(words.at(1));
  const auto search = spec::model_search_from_environment();
  const auto description = need(spec::read_model(words.at(0), search, type));
  const auto source = need(checkpoint::open_checkpoint(words.at(0), search));
  tensor::DeviceOptions options{at::Device(words.at(2)), std::stoi(words.at(3)), spec::Attention::sdpa,
                              words.size() > 4 && words[4] == "deterministic"};
  std::optional<model::LayerRange> layers;
  if (words.size() > 5) layers = model::LayerRange{std::stoll(words[4]), std::stoll(words[5])};
  const auto host = model::make_host_source(*source);
  std::vector<model::OffloadedParts> offloaded;
  if (words.size() == 5 && words[4] != "deterministic") {
    offloaded.push_back({{}, true, true, words[4] == "on-disk" ? source.get() : host.get()});
    for (std::int64_t layer = 0; layer < description.config.layers; ++layer) offloaded[0].layers.push_back(layer);
  }
  auto ops = need(tensor::make_device_ops(options));
  auto model = need(model::CausalModel::load(description.config, *source, ops,
                                             {tensor::to_torch(type), layers, options.threads, {}, offloaded}));
  if (layers) {
    fmt::print("{}\n", json{{"bytes_read", source->bytes_read()}}.dump());
    return {};
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    const json request = json::parse(line);
    if (request.contains("open")) return request["open"];
    const auto sequences = request["sequences"].get<Sequences>();
    if (request.contains("weights")) take_weights(model, request["weights"]);
    const at::Tensor logits =
        request.value("cache", false) ? chunked(model, sequences, request) : whole(model, sequences, request);
    write_floats(request["output"], logits);
    fmt::print(
        "{}\n",
        json{{"rows", logits.size(0)}, {"vocabulary", logits.size(1)}, {"bytes_read", source->bytes_read()}}.dump());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard forward_only;
  Words words(argv + 1, argv + argc);
  std::string line;
  if (words.empty() && std::getline(std::cin, line)) words = json::parse(line)["open"].get<Words>();
  while (!words.empty()) words = serve(words);
}

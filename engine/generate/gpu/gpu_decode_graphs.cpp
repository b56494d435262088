#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <map>

#include "generate/decode_graphs.hpp"

namespace muster::generate {
namespace {

// The batches that one record serves.
struct Size {
  std::int64_t rows = 0;
  std::int64_t most_blocks = 0;

  auto operator<=>(const Size&) const = default;
};

std::int64_t rounded_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

// Few sizes, none much larger than what it is for.
std::int64_t rows_bucket(std::int64_t rows) {
  for (const std::int64_t few : {1, 2, 4, 8})
    if (rows <= few) return few;
  return rounded_up(rows, rows <= 64 ? 8 : 32);
}

std::int64_t blocks_bucket(std::int64_t blocks, std::int64_t most) {
  std::int64_t bucket = 8;
  while (bucket < blocks) bucket *= 4;
  return std::min(bucket, std::max(most, blocks));
}

struct Record {
  at::cuda::CUDAGraph graph;
  at::Tensor staging;  // on the host, pinned
  at::Tensor values;   // PassNumbers' on the device
  at::Tensor logits;   // a view: the memory is the pool's, and all records write their logits there
};

// For what cannot be recorded to its end: the stream and the allocator continue without it.
void end_recording(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const c10::Error&) {
    // What went wrong is being reported already.
  }
}

class RecordedSteps final : public DecodeGraphs {
 public:
  RecordedSteps(model::CausalModel& model, model::KeyValueCache& cache, std::int64_t most_blocks)
      : model_(model), cache_(cache), most_blocks_(most_blocks) {}

  at::Tensor logits(const model::Batch& batch) override {
    std::int64_t blocks = 0;
    for (const model::SequencePart& part : batch.parts)
      blocks = std::max(blocks, static_cast<std::int64_t>(part.blocks.size()));
    const Size size{rows_bucket(batch.rows()), blocks_bucket(blocks, most_blocks_)};
    const model::PassNumbers numbers(batch, cache_.shape().block_tokens, model_.adapters(), size.rows,
                                     size.most_blocks, cache_.spare_block());
    auto& record = records_[size];
    if (!record) record = make_record(numbers);
    record->staging.copy_(numbers.values());
    record->values.copy_(record->staging, true);
    record->graph.replay();
    return record->logits.narrow(0, 0, batch.rows());
  }

 private:
  std::unique_ptr<Record> make_record(const model::PassNumbers& numbers) {
    auto record = std::make_unique<Record>();
    record->staging = at::empty_like(numbers.values(), at::TensorOptions().pinned_memory(true));
    record->values = numbers.values().to(cache_.shape().device);
    const auto run = [&] {
      const model::Pass pass = model_.prepare(numbers, record->values, &cache_);
      return model_.logits(model_.forward(pass, model_.embed(pass)));
    };
    const auto before = c10::cuda::getCurrentCUDAStream();
    before.synchronize();
    const c10::cuda::CUDAStreamGuard recording(stream_);
    run();  // libraries set themselves up the first time
    stream_.synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();  // a recording cannot take what lies idle
    // Records are never played at the same time, so that they share their memory.
    if (records_in_pool_++ == 0) pool_ = at::cuda::graph_pool_handle();
    record->graph.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      const at::Tensor logits = run();
      record->logits = at::from_blob(logits.mutable_data_ptr(), logits.sizes(), logits.options());
    } catch (...) {
      end_recording(record->graph);
      throw;
    }
    record->graph.capture_end();
    return record;
  }

  model::CausalModel& model_;
  model::KeyValueCache& cache_;
  std::int64_t most_blocks_;
  // One for all: libraries keep a workspace for each stream.
  const c10::cuda::CUDAStream stream_ = c10::cuda::getStreamFromPool();
  std::map<Size, std::unique_ptr<Record>> records_;
  at::cuda::MempoolId_t pool_{0, 0};
  int records_in_pool_ = 0;
};

}  // namespace

std::unique_ptr<DecodeGraphs> make_decode_graphs(model::CausalModel& model, const tensor::DeviceOps& ops,
                                                 model::KeyValueCache& cache, std::int64_t longest) {
  const std::int64_t head_size = model.config().head_size;
  const bool has_kernel = head_size % 8 == 0 && head_size <= 256;  // else attention asks the host in every step
  if (!ops.device.is_cuda() || ops.deterministic || !has_kernel || !model.reserve_positions(longest))
    return nullptr;
  return std::make_unique<RecordedSteps>(model, cache,
                                         rounded_up(longest, cache.shape().block_tokens) / cache.shape().block_tokens);
}

}  // namespace muster::generate

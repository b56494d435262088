// How steps travel through the ranks that share one model by layers: from stage to stage with the rows that each has
// computed, and what the last one drew back to the first.
//
// Note [Stages never wait to send]
// A send may wait until the other rank receives. Were it done by the thread that computes, the ranks could wait for
// each other in a ring: the first to hand on a step, the last to hand back tokens, and nobody receives. So a thread of
// its own sends (Outbox), and the thread that computes only ever waits to receive. The first stage waits for tokens of
// a step that it has begun; that step lies before some stage which receives as soon as it is done with earlier ones.
// Stages receive in the order in which steps were begun, so the earliest step under way can always go on.
//
// With a GPU for each rank the rows go over NCCL, which returns before they are received, from stage to next stage
// only: a chain, and no ring. Steps and tokens go through host memory all the same.
#pragma once

#include <optional>
#include <vector>

#include "communicate/communicator.hpp"
#include "generate/step.hpp"
#include "tensor/token_choice.hpp"
#include "generate/pipeline_outbox.hpp"

namespace muster::generate {

// The ranks that share a model. Both are of the same ranks and must outlive their users.
struct PipelineRanks {
  communicate::Communicator& messages;  // through host memory
  communicate::Communicator* rows;      // straight between GPUs; nullptr: rows go with the messages
};

class PipelineLink {
 public:
  // silence: how long nothing may be sent before a sign of life is; below the time-out of messages.
  PipelineLink(PipelineRanks ranks, std::chrono::milliseconds silence);

  int stage() const { return ranks_.messages.rank(); }
  int stages() const { return ranks_.messages.size(); }
  bool is_first() const { return stage() == 0; }
  bool is_last() const { return stage() + 1 == stages(); }

  // To the next stage. hidden: [rows, hidden], what this one computed.
  void pass_on(const Step& step, const at::Tensor& hidden);
  // The last stage to the first.
  void answer(std::vector<tensor::ChosenToken> tokens);
  // There are no more steps: the next stage is told. Waits until everything is sent, and for all stages.
  void end();

  // From the stage before; nothing where there are no more.
  std::optional<Step> next_step();
  // Its rows, into a tensor of their shape on this rank's device.
  at::Tensor rows_into(at::Tensor empty);
  // On the first stage: what the last one answered to the earliest step passed on that has no answer yet.
  std::vector<tensor::ChosenToken> next_answer();

 private:
  void receive(const at::Tensor& tensor, int from);
  std::vector<std::int64_t> receive_numbers(std::int64_t count, int from);
  void post_numbers(const std::vector<std::int64_t>& numbers);

  PipelineRanks ranks_;
  Outbox outbox_;
};

}  // namespace muster::generate

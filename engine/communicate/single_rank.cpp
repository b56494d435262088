// One rank alone: collectives are copies.
#include <ATen/ATen.h>

#include "communicate/implementations.hpp"

namespace muster::communicate {
namespace {

class SingleRank : public Communicator {
 public:
  explicit SingleRank(at::Device device) : Communicator(0, 1), device_(device) {}

 private:
  void run_broadcast(const at::Tensor&, int) override { check(); }
  void run_all_reduce(const at::Tensor&, Reduction) override { check(); }
  void run_all_gather(const at::Tensor& input, const at::Tensor& output) override { copy(input, output); }
  void run_reduce_scatter(const at::Tensor& input, const at::Tensor& output, Reduction) override {
    copy(input, output);
  }
  void run_all_to_all(const at::Tensor& input, const std::vector<std::int64_t>&, const at::Tensor& output,
                      const std::vector<std::int64_t>&) override {
    copy(input, output);
  }
  // There is no other rank: the caller's check has refused it.
  void run_send(const at::Tensor&, int) override {}
  void run_receive(const at::Tensor&, int) override {}
  void abort_waits(const std::string& reason) override { aborted_ = std::make_shared<const std::string>(reason); }
  at::Device barrier_device() const override { return device_; }

  void check() const {
    if (const auto reason = aborted_.load()) throw CommunicationError("aborted: " + *reason);
  }
  void copy(const at::Tensor& input, const at::Tensor& output) const {
    check();
    output.view(-1).copy_(input.view(-1));
  }

  at::Device device_;
  std::atomic<std::shared_ptr<const std::string>> aborted_;
};

}  // namespace

std::unique_ptr<Communicator> make_single_rank(at::Device device) { return std::make_unique<SingleRank>(device); }

}  // namespace muster::communicate

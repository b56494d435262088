#include "launch/launch_request.hpp"

#include <stdexcept>

namespace muster::launch {
namespace {

struct ContractWords {
  Contract contract;
  std::string_view word;
  std::string_view sentence;
};

constexpr ContractWords contracts[] = {
    {Contract::collective, "collective", "every rank sees the whole list; its own GPU is the one at LOCAL_RANK"},
    {Contract::isolated, "isolated", "every rank sees its own GPU only, as device 0; LOCAL_RANK counts the ranks"},
    {Contract::own_gpu_first, "own-gpu-first",
     "every rank sees its own GPU as device 0 and the others after it; LOCAL_RANK is 0"},
    {Contract::virtual_local_rank, "virtual-local-rank",
     "every rank sees its own GPU only, as device 0; LOCAL_RANK is 0"},
};

const ContractWords& words_of(Contract contract) {
  for (const ContractWords& words : contracts)
    if (words.contract == contract) return words;
  throw std::logic_error("a contract without words");
}

}  // namespace

std::string_view to_word(Contract contract) { return words_of(contract).word; }
std::string_view describe(Contract contract) { return words_of(contract).sentence; }

}  // namespace muster::launch

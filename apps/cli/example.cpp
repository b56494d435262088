#include "cli/example.hpp"

#include <array>

namespace muster::cli {
namespace {

constexpr std::array example_table{
    Example{"muster", "muster train", "a small model learns to add, in about two minutes"},
    Example{"muster", "muster gpus", "what this machine has"},
    Example{"muster", "muster plan --params 8B --train", "whether it fits"},

    Example{"muster gpus", "muster gpus", "a table of all GPUs"},
    Example{"muster gpus", "muster gpus --query index,memory.free --format csv,noheader", "as nvidia-smi prints it"},
    Example{"muster gpus pick", "CUDA_VISIBLE_DEVICES=$(muster gpus pick -n 2 --free 20GiB) env", "for a program"},
    Example{"muster gpus hold", "muster gpus hold -n 2 -- sh -c 'echo $CUDA_VISIBLE_DEVICES'", "two GPUs, held"},
    Example{"muster doctor", "muster doctor --json", "for programs"},
    Example{"muster config", "muster config --find learning_rate", "one setting explained"},
    Example{"muster config", "muster config --config examples/arithmetic.yaml --lr 1e-3", "what a run would get"},
    Example{"muster launch", "muster launch --nproc-per-node 2 -- sh -c 'echo rank $RANK'", "two ranks of a program"},
    Example{"muster plan", "muster plan --params 70B -n 4 --seq-len 4096", "inference on four GPUs"},
    Example{"muster plan", "muster plan --params 8B --train -n 4 --strategy fsdp", "training, sharded over four GPUs"},
    Example{"muster model", "muster model list", "the models at hand"},
    Example{"muster model get", "muster model get smollm2", "a small model that answers questions"},
    Example{"muster model list", "muster model list --json", "for programs"},
    Example{"muster model convert", "muster model convert smollm2 smollm2-folder --dtype bfloat16",
            "for other programs"},
    Example{"muster model convert", "muster model convert smollm2 smollm2-nf4 --to nf4 --double-quant",
            "in 4 bits, as bitsandbytes has them"},
    Example{"muster model merge", "muster model merge runs/adds-*/model merged", "what a run with model.use_lora=true trained"},
    Example{"muster generate", "muster generate -m smollm2 --interactive", "a conversation"},
    Example{"muster generate", "muster generate -m smollm2 -p examples/prompts.jsonl -o answers.jsonl",
            "a file of prompts"},
    Example{"muster tokenize", "echo 'Hello world' | muster tokenize -m smollm2 -p -", "token ids and pieces"},
    Example{"muster train", "muster train", "a small model learns to add, in about two minutes"},
    Example{"muster train", "muster train examples/smollm2_chat.yaml --epochs 2 --device cpu", "a file, and two settings"},
    Example{"muster train", "muster train -m smollm2 --data examples/conversations.jsonl", "your model, your data"},
    Example{"muster evaluate", "muster evaluate -m smollm2 --data examples/conversations.jsonl", "loss and perplexity"},
    Example{"muster collect", "muster collect -m smollm2 -e tool --data examples/tools.jsonl -n 4", "four trajectories"},
    Example{"muster serve-environments", "muster serve-environments -e tool --data examples/tools.jsonl --dry-run",
            "what would be served, and to whom"},
    Example{"muster run", "muster run examples/experiment.yaml --dry-run", "what would run when"},
    Example{"muster run", "muster run experiment.name=first", "a small built-in experiment"},
    Example{"muster runs", "muster runs", "a table of all runs"},
    Example{"muster runs list", "muster runs list --json", "for programs"},
    Example{"muster runs show", "muster runs show latest", "the newest run"},
    Example{"muster runs compare", "muster runs compare latest latest", "what differs between two runs"},
    Example{"muster submit", "muster submit -n 1 -- python3 -c 'print(1)'", "one job on one GPU"},
    Example{"muster submit", "muster submit -n 0 <<< 'echo seed {1..3}'", "three jobs without a GPU"},
    Example{"muster queue", "muster queue --all", "every job"},
    Example{"muster queue why", "muster queue why 1", "what job 1 waits for"},
    Example{"muster queue repair", "muster queue repair", "resume a queue whose journal was damaged"},
    Example{"muster queue forget", "muster queue forget --older 30d", "tidy up"},
    Example{"muster logs", "muster logs -f 1", "until job 1 has ended"},
    Example{"muster stop", "muster stop 2-3", "two jobs"},
    Example{"muster wait", "muster wait 1", "exits as job 1 did"},
    Example{"muster top", "muster top --once", "one look, for a pipe"},
    Example{"muster sweep", "muster sweep examples/sweep.yaml --dry-run", "what would be tried"},
    Example{"muster sweep", "muster sweep examples/sweep.yaml --name pairs -n 4 -k 2", "two trials at once, two GPUs each"},
    Example{"muster sweep best", "muster sweep best pairs --top 3", "the three best trials"},
    Example{"muster sweep serve", "echo '{\"ask\": true}' | muster sweep serve examples/sweep.yaml", "one suggestion"},
    Example{"muster sweep-multi", "muster sweep-multi multi 1 2 2 sweep=examples/sweep.yaml",
            "two runs of one GPU each, of two"},
    Example{"muster completion", "source <(muster completion bash)", "in this shell; or in ~/.bashrc"},
    Example{"muster man", "muster man train | man -l -", "the page of muster train"},
};

}  // namespace

std::span<const Example> examples() { return example_table; }

std::vector<Example> examples_of(std::string_view command) {
  std::vector<Example> found;
  for (const Example& example : example_table)
    if (example.command == command) found.push_back(example);
  return found;
}

}  // namespace muster::cli

"""What the five guides tell a user to write and to type, and what muster does with it.

Each case is a block or a command line of a guide in muster's words: `mrlm train` is `muster train`, `torchrun` is
`muster launch`, `run_parallel.py` is `muster run`, `sweep.sh` is `muster sweep`. Models of the hub are replaced by a
small one, with `-m`. Where a case is refused, `says` names the capability that is missing: when it arrives, the case
must say what happens then.
"""

import dataclasses
import typing

TRAIN_WORDS = ("training.max_steps=2", "training.sequence_length=16")


@dataclasses.dataclass(frozen=True)
class Block:
    words: tuple[str, ...]  # of the command; {blocks} is the folder of the guides' files, {model} a small model
    gpus: int = 0  # of the machine, A100s with 40 GB
    exit_code: int = 0
    says: tuple[str, ...] = ()  # on standard output or standard error
    plan: typing.Optional[dict] = None  # of --dry-run --json: what it holds
    variables: dict = dataclasses.field(default_factory=dict)


def train(*words: str, **rest) -> Block:
    """A run of two steps, computed on CPU ranks."""
    return Block(("train", *words, *TRAIN_WORDS, "training.batch_size=4"), **rest)


def planned(*words: str, strategy: str, ranks: list[int], gpus: int = 8, **rest) -> Block:
    """A run on GPUs, which are those of a file: up to its plan."""
    plan = {"fits": True, "strategy": strategy, "gpus": ranks}
    return Block(("train", *words, *TRAIN_WORDS, "--dry-run", "--json"), gpus=gpus, plan=plan, **rest)


def refused(*words: str, says: tuple[str, ...], gpus: int = 0, exit_code: int = 2) -> Block:
    return Block(words, gpus=gpus, exit_code=exit_code, says=says)


SMALL = ("-m", "{model}", "model.init=random", "data.path=builtin:arithmetic")
# What an experiment of guide 2 has beside the block: what is trained, on what.
MATRIX = ("experiment.name=my_experiment", "families.small=builtin:llama-0.2m", "datasets.sums=builtin:arithmetic",
          "device=cpu")  # fmt: skip
VALUE_GUIDANCE = ("training.algorithm: pita needs value-guided algorithms, which this version of muster does not have yet",)
FOUR = [0, 1, 2, 3]

BLOCKS: dict[str, Block] = {
    # Guide 0: GPU selection.
    "0 environment: two GPUs": planned(strategy="ddp", ranks=[0, 1], variables={"CUDA_VISIBLE_DEVICES": "0,2"}),
    "0 environment: one GPU": planned(strategy="single", ranks=[0], variables={"CUDA_VISIBLE_DEVICES": "1"}),
    "0 environment: CPU only": train("--device", "auto", gpus=8, variables={"CUDA_VISIBLE_DEVICES": ""}),
    "0 quick start": planned("--config", "{blocks}/guide0_quick_start.yaml", strategy="ddp", ranks=[0, 2]),
    "0 quick start, two GPUs by option": planned(
        "--config", "{blocks}/guide0_summary.yaml", "--num-gpus", "2", strategy="ddp", ranks=[0, 1]
    ),
    "0 quick start, GPUs by option": planned(
        "--config", "{blocks}/guide0_quick_start.yaml", "--gpu-ids", "0", "2", "3", "training.batch_size=96",
        strategy="ddp", ranks=[0, 2, 3],
    ),  # fmt: skip
    "0 quick start, CPU by option": train("--config", "{blocks}/guide0_quick_start.yaml", "--device", "cpu", gpus=8),
    "0 the whole file": planned("--config", "{blocks}/guide0_full.yaml", *SMALL, strategy="ddp", ranks=FOUR),
    "0 single GPU": planned("--config", "{blocks}/guide0_single_gpu.yaml", strategy="single", ranks=[0]),
    "0 DDP on four GPUs": planned("--config", "{blocks}/guide0_ddp_four_gpus.yaml", strategy="ddp", ranks=FOUR),
    "0 FSDP on eight GPUs": planned(
        "--config", "{blocks}/guide0_fsdp_large_model.yaml", *SMALL, strategy="fsdp", ranks=list(range(8))
    ),
    "0 always explicit": planned("--config", "{blocks}/guide0_always_explicit.yaml", strategy="ddp", ranks=FOUR),
    "0 summary": planned("--config", "{blocks}/guide0_summary.yaml", strategy="ddp", ranks=FOUR),
    "0 another port": planned("--config", "{blocks}/guide0_master_port.yaml", strategy="ddp", ranks=FOUR, gpus=4),
    "0 offload where memory is short": planned(
        "--config", "{blocks}/guide0_fsdp_large_model.yaml", *SMALL, "fsdp_cpu_offload=true",
        strategy="fsdp", ranks=list(range(8)),
    ),  # fmt: skip
    "0 answers compared in groups": Block(
        ("train", "--config", "{blocks}/guide0_grpo.yaml", *SMALL, "reward.functions=exact", "training.sequence_length=64",
         "generation.max_new_tokens=16", "--dry-run", "--json"), gpus=8, plan={"fits": True, "strategy": "single", "gpus": [0]},
    ),  # fmt: skip
    "0 preferences": Block(
        ("train", "--config", "{blocks}/guide0_dpo.yaml", *SMALL, "training.sequence_length=64", "--dry-run", "--json"), gpus=1,
        plan={"fits": True, "strategy": "single", "gpus": [0]},
    ),  # fmt: skip
    "0 learning from trajectories": Block(
        ("train", "--config", "{blocks}/guide0_sft.yaml", "-m", "{model}", "model.init=random", "data.path=trajectories.jsonl",
         "training.num_epochs=1", "training.batch_size=2", "training.sequence_length=200", "--device", "cpu"),
        says=("1 trajectory left out", "sft.collect_every changes nothing"),
    ),  # fmt: skip
    # Run for real, by each of its algorithms, in tests/command/train/test_evaluated_environments.py.
    "0 the whole file of a run": Block(
        ("train", "--config", "{blocks}/guide0_whole_file.yaml", *SMALL, "environment.evaluations=[{type: math}]", "--dry-run", "--json"),
        gpus=1, plan={"fits": True, "gpus": [0]},
    ),  # fmt: skip
    "0 distributed PPO": planned(
        "--config", "{blocks}/guide0_ddp_four_gpus.yaml", *SMALL, "training.algorithm=ppo", "reward.functions=exact",
        strategy="ddp", ranks=FOUR,
    ),  # fmt: skip
    # Guide 1: one model over several GPUs.
    "1 how many GPUs": Block(("gpus", "--json"), gpus=4, says=('"visible"',)),
    "1 greedy answers": Block(
        ("generate", "-m", "{model}", "model.init=random", "-p", "{prompts}", "--temperature", "0",
         "--max-new-tokens", "4", "--device", "cpu"), says=('"finish"',),
    ),  # fmt: skip
    "1 70B in 16 bits": Block(
        ("plan", "--params", "70B", "--dtype", "float16", "--device-map", "auto", "--seq-len", "512", "--json"), gpus=8,
        plan={"fits": True},
    ),  # fmt: skip
    "1 70B in 8 bits": Block(("plan", "--params", "70B", "--dtype", "int8", "--seq-len", "512", "--json"), gpus=4, plan={"fits": True}),
    "1 70B in 4 bits": Block(("plan", "--params", "70B", "--dtype", "int4", "--seq-len", "512", "--json"), gpus=4, plan={"fits": True}),
    "1 answers of an 8-bit model": Block(
        ("generate", "-m", "{model}", "model.init=random", "load_in_8bit=true", "-p", "{prompts}", "--max-new-tokens", "8", "--device", "cpu"),
        says=('"finish"',),
    ),  # fmt: skip
    # Guide 2: experiments.
    "2 an experiment": Block(("run", "experiment.name=my_experiment", "--dry-run"), gpus=4, says=("sft_small_sums_r1",)),
    "2 a test run": Block(("run", "experiment.name=gpu_test_run", "--dry-run"), gpus=1, says=("sft_small_sums_r1",)),
    "2 one job at a time": Block(("run", "experiment.name=my_experiment", "use_parallel_execution=false", "--dry-run"), gpus=4, says=("sft_small_sums_r1",)),
    "2 key settings": refused(
        "run", "{blocks}/guide2_key_settings.yaml", *MATRIX, "--dry-run",
        says=("data_collection.reward_batch_size needs reward models, which this version of muster does not have yet",),
    ),  # fmt: skip
    "2 for 40 GB": refused("run", "{blocks}/guide2_for_40gb.yaml", *MATRIX, "--dry-run", says=VALUE_GUIDANCE),
    "2 for 80 GB": refused("run", "{blocks}/guide2_for_80gb.yaml", *MATRIX, "--dry-run", says=VALUE_GUIDANCE),
    "2 smaller batches": refused("run", "{blocks}/guide2_smaller_batch.yaml", *MATRIX, "--dry-run", says=VALUE_GUIDANCE),
    "2 batch sizes": refused("run", "{blocks}/guide2_batch_sizes.yaml", *MATRIX, "--dry-run", says=VALUE_GUIDANCE),
    "2 the same for an algorithm that is there": Block(
        ("run", "{blocks}/guide2_checkpointing_on.yaml", *MATRIX, "algos.SFT.batch_size=12", "--dry-run"), says=("SFT_small_sums_r1",)
    ),
    "2 the file of an experiment for train": refused(
        "train", "--config", "{blocks}/guide2_smaller_batch.yaml", says=("algos.PITA.batch_size: 12 is for muster run",)
    ),
    "2 recomputation": train("--config", "{blocks}/guide2_checkpointing_on.yaml", "--device", "cpu"),
    "2 smaller passes": train("--config", "{blocks}/guide2_smaller_micro_batch.yaml", "--device", "cpu"),
    "2 eager attention": planned("--config", "{blocks}/guide2_eager_attention.yaml", strategy="ddp", ranks=FOUR, gpus=4),
    "2 more samples for more jobs": refused("train", "num_samples=64", says=("more samples do not make more jobs",)),
    # Guide 3: a trainer's arguments.
    "3 arguments of the trainer": Block(
        ("train", "per_device_train_batch_size=2", "gradient_accumulation_steps=4", "warmup_steps=1", "max_steps=2", "learning_rate=2e-4",
         "logging_steps=1", 'output_dir="./outputs"', "max_seq_length=16", "--device", "cpu"), says=("outputs/",),
    ),  # fmt: skip
    "3 arguments of the model": refused(
        "train", *SMALL, "max_seq_length=16", "dtype=None", "load_in_4bit=True", "use_multi_gpu=True", gpus=4,
        says=("weights in 4 bits stay as they are in training; model.use_lora=true trains low-rank adapters beside them",),
    ),
    "3 the same in 16 bits": planned(*SMALL, "dtype=None", "use_multi_gpu=True", strategy="ddp", ranks=FOUR, gpus=4),
    "3 an automatic map": planned(*SMALL, "use_multi_gpu=True", "auto_device_map=True", strategy="ddp", ranks=FOUR, gpus=4),
    "3 a balanced map": refused("train", *SMALL, "device_map=balanced", "--dry-run", gpus=4, says=("model.device_map splits one model over the GPUs",)),
    "3 one GPU of four": planned("use_multi_gpu=False", strategy="single", ranks=[0], gpus=4),
    "3 several GPUs, configured": planned(
        'backend="nccl"', "timeout_minutes=30", "tensor_parallel=False", "pipeline_parallel=False", "use_gradient_checkpointing=True",
        "find_unused_parameters=False", strategy="ddp", ranks=FOUR, gpus=4,
    ),  # fmt: skip
    "3 unused parameters": train("find_unused_parameters=True", "--device", "cpu", says=("find_unused_parameters changes nothing",)),
    "3 tensor parallelism": refused("train", "tensor_parallel=2", gpus=4, says=("needs tensor parallelism",)),
    "3 pipeline parallelism": refused("train", "pipeline_parallel=2", gpus=4, says=("needs pipeline parallelism",)),
    "3 MPI": refused("train", "backend=mpi", says=("distributed.backend: mpi needs MPI",)),
    "3 gloo": train("backend=gloo", "--device", "cpu", "--ranks", "2"),
    "3 balanced over four GPUs": Block(
        ("generate", "-m", "{model}", "model.init=random", "-p", "{prompts}", 'device_map="balanced"', "--max-new-tokens", "4",
         'max_memory={0: "10GB", 1: "10GB", 2: "8GB", 3: "8GB"}', "use_multi_gpu=True", "--dry-run", "--json"), gpus=4, plan={"fits": True},
    ),  # fmt: skip
    "3 sequential": Block(
        ("generate", "-m", "{model}", "model.init=random", "-p", "{prompts}", 'device_map="sequential"', "--max-new-tokens", "4",
         "--dry-run", "--json"), gpus=4, plan={"fits": True},
    ),  # fmt: skip
    "3 a split model in data parallel": refused(
        "train", *SMALL, "device_map=balanced", "distributed.strategy=ddp", "num_gpus=4", gpus=4, says=("splits one model over the GPUs",)
    ),
    "3 loader": train("dataloader_num_workers=4", "dataloader_pin_memory=True", "--device", "cpu"),
    "3 out of memory": Block(
        ("train", "per_device_train_batch_size=1", "gradient_accumulation_steps=8", "gradient_checkpointing=True", *TRAIN_WORDS, "--device", "cpu"),
        says=("2 steps of",),
    ),
    "3 mixed precision": planned("fp16=False", "bf16=True", strategy="ddp", ranks=FOUR, gpus=4),
    # Guide 4: sweeps.
    "4 a sweep on four GPUs": Block(("sweep", "run=my_sweep", "gpu_list=0,1,2,3", "--dry-run"), gpus=8, says=("0,1,2,3",)),
    "4 a sweep on the other four": Block(("sweep", "run=my_sweep", "gpu_list=4,5,6,7", "--dry-run"), gpus=8, says=("4,5,6,7",)),
    **{
        f"4 run {number} of four": Block(
            ("sweep", f"run=my_sweep.run{number}", f"gpu_list={2 * number - 2},{2 * number - 1}", "--dry-run"), gpus=8,
            says=(f"{2 * number - 2},{2 * number - 1}",),
        )
        for number in (1, 2, 3, 4)
    },  # fmt: skip
    "4 GPU_LIST": Block(("sweep", "run=my_sweep", "--dry-run"), gpus=8, says=("4,5",), variables={"GPU_LIST": "4,5"}),
    "4 four runs of two GPUs": Block(("sweep-multi", "my_sweep", "2", "4", "--dry-run"), gpus=8, says=("6,7",)),
    "4 two runs of four GPUs": Block(("sweep-multi", "my_sweep", "4", "2", "8", "--dry-run"), gpus=8, says=("4,5,6,7",)),
    "4 four runs of one GPU, where nothing is said": Block(("sweep-multi", "my_sweep", "--dry-run"), gpus=8, says=("run 3     GPU 3",)),
    "4 too many": refused("sweep-multi", "my_sweep", "4", "4", "8", "--dry-run", gpus=8, exit_code=3, says=("16",)),
    "4 with more settings": refused(
        "sweep-multi", "my_sweep", "2", "4", "8", "trainer.total_timesteps=1000000", "--dry-run", gpus=8,
        says=("training.total_timesteps: 1000000 needs simulated environments",),
    ),  # fmt: skip
}

# What torchrun is given, with the guide's numbers: the words of muster launch before the script, and the ranks that come.
LAUNCHES: dict[str, tuple[tuple[str, ...], int]] = {
    "0 DDP on four GPUs": (("--nproc_per_node=4",), 4),
    "0 FSDP on eight GPUs": (("--nproc_per_node=8",), 8),
    "0 another port": (("--nproc_per_node=2", "--master_port={port}"), 2),
    "2 an experiment below torchrun": (("--nproc_per_node=4",), 4),
    "3 accelerate": (("--nproc-per-node", "4"), 4),
}

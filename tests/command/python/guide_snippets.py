"""The Python snippets of the GPU selection guide, with the package's name put in. Where the guide lists alternatives
one after the other, each is a snippet of its own: a mask is made once in a process.

name: (code, standard input, lines that must appear in the output)
"""

IMPORT = "from muster.distributed import "
MODEL = """
class Model:
    def to(self, device):
        print(f"model on {device}")
        return self
model = Model()
"""

SNIPPETS = {
    "quick start, 2 GPUs": (
        IMPORT + "setup_gpu_environment\n"
        "# Auto-select 2 GPUs\n"
        "device = setup_gpu_environment(num_gpus=2)\nprint(device)",
        "",
        ["cuda:0"],
    ),
    "quick start, specific GPUs": (
        IMPORT + "setup_gpu_environment\ndevice = setup_gpu_environment(gpu_ids=[0, 2])\nprint(device)",
        "",
        ["cuda:0"],
    ),
    "quick start, all GPUs": (
        IMPORT + "setup_gpu_environment\ndevice = setup_gpu_environment()\nprint(device)",
        "",
        ["cuda:0"],
    ),
    "basic selection": (
        IMPORT
        + """(
    setup_gpu_environment,
    get_available_gpus,
    select_gpus,
    print_gpu_info,
)

# Check available GPUs
available = get_available_gpus()
print(f"Available GPUs: {available}")  # [0, 1, 2, 3, 4, 5, 6, 7]

# Print GPU information
print_gpu_info()

# Select specific GPUs
device = setup_gpu_environment(gpu_ids=[0, 2, 4, 6])

# Select first N GPUs
device = setup_gpu_environment(num_gpus=4)
""",
        "",
        [
            "Available GPUs: [0, 1, 2, 3, 4, 5, 6, 7]",
            "Available GPUs: 8",
            "GPU 0: NVIDIA A100-SXM4-40GB (40536 MB total, 1234 MB used (3.0%), Compute 8.0)",
            "GPU 1: NVIDIA A100-SXM4-40GB (40536 MB total, 0 MB used (0.0%), Compute 8.0)",
        ],
    ),
    "advanced selection": (
        IMPORT
        + """(
    select_gpus,
    auto_select_gpus_for_model,
    get_gpu_memory_usage,
)

# Select GPUs with at least 32GB memory
gpus = select_gpus(min_memory_mb=32000)
print(f"High-memory GPUs: {gpus}")

# Auto-select for model size
# For a 70B parameter model (~140GB)
gpus = auto_select_gpus_for_model(model_size_gb=140)
print(f"GPUs for 70B model: {gpus}")

# Check memory usage
for gpu_id in [0, 1, 2, 3]:
    allocated, total, util = get_gpu_memory_usage(gpu_id)
    print(f"GPU {gpu_id}: {allocated}/{total} MB ({util:.1f}%)")
""",
        "",
        [
            "High-memory GPUs: [0, 1, 2, 3, 4, 5, 6, 7]",
            "GPUs for 70B model: [0, 1, 2, 3, 4, 5]",
            "GPU 0: 1234/40536 MB (3.0%)",
            "GPU 3: 0/40536 MB (0.0%)",
        ],
    ),
    "manual control": (
        MODEL
        + IMPORT
        + """set_visible_gpus, get_optimal_device
import torch

# Set visible GPUs manually
set_visible_gpus([0, 2, 4, 6])

# Get optimal device
device = get_optimal_device(gpu_ids=[0, 2, 4, 6])
print(device)  # cuda:0 (mapped to physical GPU 0)

# Move model to device
model = model.to(device)
print(torch.cuda._parse_visible_devices())
""",
        "",
        ["cuda:0", "model on cuda:0", "[0, 2, 4, 6]"],
    ),
    "scenario 1, option C": (
        MODEL + IMPORT + "setup_gpu_environment\ndevice = setup_gpu_environment(gpu_ids=[0])\nmodel.to(device)",
        "",
        ["model on cuda:0"],
    ),
    "scenario 5, a subset": (
        IMPORT
        + """setup_gpu_environment, get_available_gpus

# These GPUs will be remapped to 0,1,2,3 internally
device = setup_gpu_environment(gpu_ids=[2, 3, 5, 7])
print(device, get_available_gpus())
""",
        "",
        ["cuda:0 [0, 1, 2, 3]"],
    ),
    "best practice 1": (
        IMPORT
        + """get_available_gpus, print_gpu_info

# Always check before training
available = get_available_gpus()
if not available:
    print("Warning: No GPUs available, using CPU")
else:
    print(f"Found {len(available)} GPUs")
    print_gpu_info()
""",
        "",
        ["Found 8 GPUs", "Available GPUs: 8"],
    ),
    "best practice 2": (
        "gpu_ids = [0, 7]\n"
        + IMPORT
        + """get_gpu_memory_usage

# Before and after loading model
for gpu_id in gpu_ids:
    alloc, total, util = get_gpu_memory_usage(gpu_id)
    if util > 90:
        print(f"Warning: GPU {gpu_id} at {util:.1f}% capacity")
print(f"{util:.1f}")
""",
        "",
        ["0.0"],
    ),
    "best practice 4": (
        IMPORT
        + """auto_select_gpus_for_model

# For 7B model (~14GB with gradients/optimizer)
gpus = auto_select_gpus_for_model(model_size_gb=14)
print(gpus)

# For 70B model (~140GB)
gpus = auto_select_gpus_for_model(model_size_gb=140)
print(gpus)
""",
        "",
        ["[0]", "[0, 1, 2, 3, 4, 5]"],
    ),
    "troubleshooting, invalid device ordinal": (
        "# Check available GPUs first\n" + IMPORT + "get_available_gpus\nprint(get_available_gpus())",
        "",
        ["[0, 1, 2, 3, 4, 5, 6, 7]"],
    ),
    "example 1, interactive": (
        IMPORT
        + """get_available_gpus, setup_gpu_environment

# Show available GPUs
gpus = get_available_gpus()
print(f"Available GPUs: {gpus}")

# Let user choose
gpu_input = input("Enter GPU IDs (comma-separated): ")
selected = [int(x.strip()) for x in gpu_input.split(",")]

# Setup environment
device = setup_gpu_environment(gpu_ids=selected)
print(f"Using device: {device}")
""",
        "4, 6\n",
        ["Available GPUs: [0, 1, 2, 3, 4, 5, 6, 7]", "Using device: cuda:0"],
    ),
    "example 2, least loaded": (
        IMPORT
        + """get_gpu_info, get_gpu_memory_usage, setup_gpu_environment

# Find least loaded GPU
gpu_info = get_gpu_info()
loads = []

for info in gpu_info:
    _, _, util = get_gpu_memory_usage(info['id'])
    loads.append((info['id'], util))

# Sort by utilization
loads.sort(key=lambda x: x[1])

# Use least loaded GPU
best_gpu = loads[0][0]
print(f"Using least loaded GPU: {best_gpu} ({loads[0][1]:.1f}% used)")

device = setup_gpu_environment(gpu_ids=[best_gpu])
""",
        "",
        ["Using least loaded GPU: 1 (0.0% used)", "Using 1 of 8 GPUs (CUDA_VISIBLE_DEVICES=1)"],
    ),
    "example 3, conditional": (
        IMPORT
        + """select_gpus, setup_gpu_environment

# Training config
model_size_gb = 7  # 7B model
batch_size = 32

# Estimate memory needed
memory_needed_gb = model_size_gb * 2  # Model + gradients + optimizer

# Select GPUs
if memory_needed_gb <= 40:
    # Fits on one A100
    device = setup_gpu_environment(num_gpus=1)
    strategy = "single"
elif memory_needed_gb <= 160:
    # Use DDP on 4 GPUs
    device = setup_gpu_environment(num_gpus=4)
    strategy = "ddp"
else:
    # Need FSDP
    device = setup_gpu_environment(num_gpus=8)
    strategy = "fsdp"

print(f"Using {strategy} strategy on {device}")
""",
        "",
        ["Using single strategy on cuda:0"],
    ),
    "summary": (
        IMPORT + "setup_gpu_environment\ndevice = setup_gpu_environment(num_gpus=4)\nprint(device)",
        "",
        ["cuda:0"],
    ),
    "device management of the multi-GPU guide": (
        IMPORT
        + """(
    get_current_gpu_index,
    set_gpu_device,
    get_gpu_memory_info,
    clear_gpu_cache
)

# Get current GPU
current_gpu = get_current_gpu_index()
print(current_gpu)

# Set GPU device
set_gpu_device(1)

# Get memory info
memory_info = get_gpu_memory_info(0)
print(f"GPU 0 memory: {memory_info}")

# Clear cache
clear_gpu_cache()
print(get_current_gpu_index())
""",
        "",
        ["0", "1"],
    ),
}

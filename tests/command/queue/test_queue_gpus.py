"""GPUs that fall ill, appear, are linked, or are not known at all."""

import json

import pytest


@pytest.fixture
def watchful(queue):
    """A queue that looks at its GPUs all the time."""
    queue.environment["MUSTER_QUEUE_LOOK"] = "50ms"
    queue.inventory = queue.folder / "gpus.yaml"
    return queue


def gpus(*, ill: int | None = None, count: int = 4, links: str = "") -> str:
    rows = [f"  - {{index: {i}, memory_total: 80GiB{', healthy: false' if i == ill else ''}}}\n" for i in range(count)]
    return "gpus:\n" + "".join(rows) + links


def replace(queue, text: str):
    (queue.folder / "next.yaml").write_text(text)
    (queue.folder / "next.yaml").rename(queue.inventory)


def test_a_job_whose_gpu_falls_ill_begins_again_on_another(watchful):
    replace(watchful, gpus())
    command = "echo $CUDA_VISIBLE_DEVICES >> used; test $MUSTER_ATTEMPT = 2 || exec sleep 1000"
    (job,) = watchful.submit("sh", "-c", command, options=["-n", 1])
    used = watchful.folder / "used"
    watchful.until(lambda: used.exists() and used.read_text())
    replace(watchful, gpus(ill=int(used.read_text())))
    watchful.run("wait", job)  # it needs no retries: it did not fail
    assert len(set(used.read_text().split())) == 2


def test_a_gpu_that_appears_is_used(watchful):
    replace(watchful, gpus(count=1))
    (first,) = watchful.submit("sleep", "1000", options=["-n", 1])
    (second,) = watchful.submit("true", options=["-n", 1])
    watchful.until(lambda: watchful.state_of(first) == "running")
    assert watchful.state_of(second) == "ready"
    replace(watchful, gpus(count=2))
    watchful.run("wait", second)


def test_jobs_without_gpus_run_while_the_gpus_are_not_known(watchful):
    replace(watchful, gpus())
    (blocker,) = watchful.submit("sleep", "1000", options=["-n", 0])
    (wants,) = watchful.submit("true", options=["-n", 1])
    watchful.run("wait", wants)
    watchful.kill_conductor()
    replace(watchful, "this is no inventory")
    (job,) = watchful.submit("true", options=["-n", 0])
    watchful.run("wait", job)
    assert watchful.state_of(blocker) == "running"
    watchful.until(lambda: "not known" in (watchful.state / "conductor.log").read_text())
    replace(watchful, gpus())
    (later,) = watchful.submit("true", options=["-n", 4])
    watchful.run("wait", later)


def test_a_gang_gets_gpus_that_are_linked(watchful):
    links = "links: [{between: [0, 3], kind: nvlink}, {between: [1, 2], kind: nvlink}]\n"
    replace(watchful, gpus(links=links))
    both = "touch here-$MUSTER_JOB; until [ $(ls here-* | wc -l) = 2 ]; do sleep 0.02; done"
    jobs = watchful.submit(options=["-n", 2], text=f"echo $CUDA_VISIBLE_DEVICES; {both} # {{1,2}}\n")
    watchful.run("wait", *jobs)
    assert {watchful.run("logs", job).stdout.strip() for job in jobs} == {"0,3", "1,2"}


def test_a_plan_says_how_many_gpus_a_command_of_musters_own_wants(queue):
    """Weights of 15 GB: on GPUs of 10 GiB generation needs two of them, busy or not."""
    (queue.folder / "gpus.yaml").write_text("gpus:\n  - {count: 4, name: small, memory_total: 10GiB}\n")
    shape = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "intermediate_size": 18944,
             "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
             "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16"}
    model = queue.folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(shape))
    (queue.folder / "prompts.txt").write_text("one\n")
    words = [str(queue.program), "generate", "-m", "model", "-p", "prompts.txt", "-o", "o.jsonl", "--device-map", "auto",
             "generation.max_new_tokens=16", "model.init=random"]
    busy = queue.submit("sleep", "30", options=["-n", "4"])
    (job,) = queue.submit(*words, options=["-n", "plan"])
    assert queue.jobs()[job]["gpus_wanted"] == 2
    queue.run("stop", *busy, job)
    assert "has no plan" in queue.run("submit", "-n", "plan", "--", "true", status=2).stderr
    assert "plan, is accepted" in queue.run("submit", "-n", "two", "--", "true", status=2).stderr


def test_jobs_run_on_the_gpus_of_a_driver_one_after_the_other(queue):
    """The library of a driver answers in no fork of a process that has used it; jobs wait for each other's memory."""
    (queue.folder / "gpus.yaml").write_text("gpus:\n  - {memory_total: 80GiB, memory_used: 0}\n")
    inventory = queue.environment.pop("MUSTER_GPUS")
    queue.environment["MUSTER_NVML_LIBRARY"] = str(queue.program.parents[2] / "nvml_stub/new/libnvidia-ml.so.1")
    queue.environment["MUSTER_NVML_STUB_INVENTORY"] = inventory
    jobs = [queue.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")[0] for _ in range(3)]
    queue.run("wait", *jobs)
    assert [queue.run("logs", job).stdout for job in jobs] == ["0\n"] * 3

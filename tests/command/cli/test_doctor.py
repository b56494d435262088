import json
import os
import pathlib
import re
import shutil
import subprocess


def checks(result) -> dict:
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_spawns_a_worker_per_gpu_and_believes_only_what_it_reports(eight):
    result = eight("doctor", "--json", CUDA_VISIBLE_DEVICES="6,2")
    workers = checks(result)["workers"]
    assert workers["outcome"] == "pass" and "2" in workers["finding"], workers


def test_goes_on_after_a_mask_that_cannot_be_read(eight):
    result = eight("doctor", "--json", CUDA_VISIBLE_DEVICES="0,9")
    assert result.returncode == 1
    found = checks(result)
    assert found["mask"]["outcome"] == "failure" and "no GPU 9" in found["mask"]["finding"] and found["mask"]["remedy"]
    assert found["ports"]["outcome"] in ("pass", "warning")


def test_names_a_lease_folder_that_cannot_be_used(eight, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    result = eight("doctor", "--json", MUSTER_LEASE_DIR=str(file))
    assert result.returncode == 1 and checks(result)["leases"]["outcome"] == "failure"


def test_prints_a_list_for_people_with_the_counts_last(eight):
    result = eight("doctor")
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert "passed" in lines[-1] and "failed" in lines[-1]
    assert any(line.strip().startswith(("✓ pass", "pass")) or "pass" in line for line in lines[:-1])
    assert os.linesep.join(lines).count("FAIL") == 0


def test_the_page_lists_the_checks_of_the_program_in_its_order(eight):
    names = list(checks(eight("doctor", "--json")))
    page = (pathlib.Path(__file__).resolve().parents[3] / "docs/doctor.md").read_text()
    assert re.findall(r"^\| `([a-z ]+)` \| ", page.split("## The checks")[1].split("##")[0], re.MULTILINE) == names
    passed, warnings, failed = map(int, re.search(r"^(\d+) passed, (\d+) warning, (\d+) failed$", page, re.MULTILINE).groups())
    assert passed + warnings + failed == len(names)


def test_starts_two_ranks_that_run_every_kind_of_collective(eight):
    found = checks(eight("doctor", "--json"))["collectives"]
    assert found["outcome"] == "pass", found
    assert found["finding"].startswith("2 CPU ranks over gloo: 7 kinds right"), found


def test_generates_on_two_ranks_what_one_rank_gives(eight):
    found = checks(eight("doctor", "--json"))["generation"]
    assert found["outcome"] == "pass", found
    assert re.fullmatch(r"2 CPU ranks: \d+ tokens, the same bytes as on one rank", found["finding"]), found


def test_warns_where_the_worker_is_not_built_and_says_what_to_type(eight, tmp_path):
    alone = shutil.copy(eight.program, tmp_path / "muster")
    result = subprocess.run([alone, "doctor", "--json"], capture_output=True, text=True, env=eight.environment)
    found = checks(result)["collectives"]
    assert found["outcome"] == "warning" and "not built" in found["finding"] and "setup.sh engine" in found["remedy"]

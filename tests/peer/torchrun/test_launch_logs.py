"""muster launch writes the files torchrun writes, and shows the lines torchrun shows."""

import re

import pytest
from launchers import SCRIPTS, lines_of_ranks

CHATTER = SCRIPTS / "chatter.py"


def assert_equal_trees(pair) -> None:
    of_torchrun, of_muster = pair.torchrun.log_tree(), pair.muster.log_tree()
    assert sorted(of_muster) == sorted(of_torchrun)
    for name, content in of_torchrun.items():
        if "filtered" in name:  # the ranks' lines come in any order
            assert sorted(of_muster[name].splitlines()) == sorted(content.splitlines()), name
        else:
            assert of_muster[name] == content, name


def whole_lines(shown: str, expected: str) -> str:
    """A long line that torchrun reads while it is being written is shown in two parts, with the rank's prefix before both."""
    for prefix in set(re.findall(r"^(.*)long (?=000|111)", expected, re.MULTILINE)) - {""}:
        shown = re.sub(r"(?<=000|111)" + re.escape(prefix) + "(?=[01])", "", shown)
    return shown


def assert_equal_consoles(pair) -> None:
    for of_muster, of_torchrun in [(pair.muster.output, pair.torchrun.output), (pair.muster.errors, pair.torchrun.errors)]:
        assert lines_of_ranks(of_muster) == lines_of_ranks(whole_lines(of_torchrun, of_muster))


@pytest.mark.parametrize("prefix", ["[default{}]:", "[trainer0/{0}/{0}] ", "{} $ ${{unknown}} $: ", "plain "])
def test_a_line_shown_in_two_parts_is_one(prefix):
    def lines(of_rank):
        return "".join(prefix.format(rank) + "long " + of_rank(rank) + "\n" for rank in "01")

    expected = lines(lambda rank: rank * 90)
    assert whole_lines(lines(lambda rank: rank * 40 + prefix.format(rank) + rank * 50), expected) == expected
    assert whole_lines(expected, expected) == expected


@pytest.mark.parametrize(
    "options",
    [
        ["-r", "0"],
        ["-r", "1"],
        ["--redirects", "2"],
        ["-r3"],
        ["-t", "1"],
        ["--tee=2"],
        ["-t", "3"],
        ["-r", "0:3,1:1"],
        ["-t", "0:3,1:1"],
        ["-r", "3", "-t", "0:1"],
        ["-r", "0:2", "-t", "1:2"],
        ["-t", "3", "--local-ranks-filter", "1"],
        ["-r", "1", "--local-ranks-filter", "0,1"],
        ["-r", "1", "--local_ranks_filter=0"],
        ["--local-ranks-filter", "1"],
        ["-t", "3", "--role", "trainer"],
    ],
    ids=" ".join,
)
def test_streams_go_where_they_are_sent(both, options):
    pair = both("--nproc-per-node", 2, "--log-dir", "logs", *options, CHATTER)
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    assert_equal_trees(pair)
    assert_equal_consoles(pair)


def test_every_round_has_its_own_folder(both):
    pair = both("--nproc-per-node", 2, "--log-dir", "logs", "-r", 3, "--max-restarts", 1, CHATTER, "--fail-first")
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    assert {"attempt_0", "attempt_1"} <= pair.muster.log_tree().keys()
    of_torchrun, of_muster = pair.torchrun.log_tree(), pair.muster.log_tree()
    assert sorted(of_muster) == sorted(of_torchrun)
    for name in of_torchrun:
        if not name.startswith("attempt_0/0"):  # rank 0 of the first round is stopped somewhere
            assert of_muster[name] == of_torchrun[name], name


def test_runs_of_one_log_folder_do_not_meet(launchers, tmp_path):
    for _ in range(2):
        options = ["--nproc-per-node", 1, "--rdzv-id", "same", "--log-dir", tmp_path / "logs", "-r", 3]
        assert launchers.muster([*options, CHATTER]).outcome().code == 0
    folders = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert len(folders) == 2 and all(name.startswith("same_") for name in folders)


@pytest.mark.parametrize(
    "filters",
    [
        ["--duplicate-stdout-filters", "apple"],
        ["--duplicate-stdout-filters", "rank 1,orange,, and", "--duplicate-stderr-filters", "pear"],
        ["--duplicate_stdout_filters=nothing has this"],
    ],
    ids=" ".join,
)
def test_chosen_lines_are_gathered_in_one_file(both, filters):
    pair = both("--nproc-per-node", 2, "--log-dir", "logs", "-t", 3, *filters, CHATTER)
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    assert "attempt_0/filtered_stdout.log" in pair.muster.log_tree()
    assert_equal_trees(pair)
    assert_equal_consoles(pair)


@pytest.mark.parametrize("template", ["[${role_name}/${rank}/${local_rank}] ", "$rank $$ ${unknown} $: ", "plain "])
def test_the_prefix_follows_its_template(both, template):
    variables = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": template}
    pair = both("--nproc-per-node", 2, "--log-dir", "logs", "-t", 3, CHATTER, variables=variables)
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    assert "rank 1 round 0 line 19\n" in pair.muster.output and "[default1]:" not in pair.muster.output
    assert_equal_consoles(pair)


def test_a_last_line_without_an_end_is_shown(both):
    pair = both("--nproc-per-node", 1, "--log-dir", "logs", "-t", 3, CHATTER, "--open-end")
    assert_equal_trees(pair)
    assert "[default0]:the last line has no end" in pair.muster.output
    assert pair.muster.output.rstrip("\n") == pair.torchrun.output.rstrip("\n")


def test_a_progress_bar_becomes_lines(both):
    pair = both("--nproc-per-node", 1, "--log-dir", "logs", "-t", 3, CHATTER, "--carriage-return")
    assert "[default0]:step 2\n" in pair.muster.errors
    assert_equal_trees(pair)
    assert_equal_consoles(pair)


def test_bytes_that_are_no_text_reach_the_file_as_they_are(both):
    pair = both("--nproc-per-node", 1, "--log-dir", "logs", "-t", 3, CHATTER, "--bytes")
    assert (pair.torchrun.code, pair.muster.code) == (0, 0), pair.torchrun.errors + pair.muster.errors
    assert b"not text: \xff\xfe\x00 end\n" in pair.muster.log_tree()["attempt_0/0/stdout.log"]
    assert_equal_trees(pair)

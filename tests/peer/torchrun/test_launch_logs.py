"""muster launch writes the files torchrun writes, and shows the lines torchrun shows."""

import re
from collections import Counter

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


def without_long_lines(shown: str, prefixes: set[str]) -> tuple[str, Counter]:
    """The rest, and how much there was of the long lines.

    torchrun that reads such a line while it is being written shows it in two parts: the rank's prefix stands before both, and lines of
    the other rank between them.
    """
    prefix = "|".join(map(re.escape, sorted(prefixes)))
    parts = re.compile(rf"(?:{prefix})?(?:long )?(0{{50,}}?|1{{50,}}?)(?:\n|\Z|(?={prefix or '[^01]'}))")
    return parts.sub("", shown), Counter("".join(parts.findall(shown)))


def assert_equal_texts(of_muster: str, of_torchrun: str) -> None:
    whole = re.compile(r"^(.*)long (0+|1+)$", re.MULTILINE).findall(of_muster)
    prefixes = {prefix for prefix, _ in whole}
    rest, long = without_long_lines(of_muster, prefixes)
    expected, expected_long = without_long_lines(of_torchrun, prefixes)
    assert lines_of_ranks(rest) == lines_of_ranks(expected)
    assert long == expected_long == Counter("".join(line for _, line in whole))
    assert all(len(line) == 200_000 for _, line in whole)


def assert_equal_consoles(pair) -> None:
    assert_equal_texts(pair.muster.output, pair.torchrun.output)
    assert_equal_texts(pair.muster.errors, pair.torchrun.errors)


@pytest.mark.parametrize("prefix", ["[default{}]:", "[trainer0/{0}/{0}] ", "{} $ ${{unknown}} $: ", "plain "])
def test_a_line_shown_in_two_parts_is_one(prefix):
    zero, one = prefix.format(0), prefix.format(1)
    whole = f"{zero}long {'0' * 200_000}\n{one}long {'1' * 200_000}\n{zero}end\n{one}end\n"
    parts = f"{zero}long {'0' * 4000}{one}long {'1' * 8000}{one}{'1' * 192_000}\n{one}end\n{zero}{'0' * 196_000}\n{zero}end\n"
    assert_equal_texts(whole, parts)
    for other in (parts.replace("0\n", "00\n"), parts.replace(f"{one}end", "end"), parts.replace("long 1", "long")):
        with pytest.raises(AssertionError):
            assert_equal_texts(whole, other)
    with pytest.raises(AssertionError):
        assert_equal_texts(parts, whole)


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
    assert_equal_texts(pair.muster.output.rstrip("\n") + "\n", pair.torchrun.output.rstrip("\n") + "\n")


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

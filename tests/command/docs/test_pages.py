"""Every command that README.md and docs/ show, pasted in order into one shell, does what is shown."""

import pytest
from page_blocks import fits, steps_of
from shell_session import ROOT

PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]


@pytest.mark.limit(600)
@pytest.mark.parametrize("page", [page for page in PAGES if steps_of(ROOT / page)])
def test_a_page_does_what_it_shows(shell, page):
    problems = []
    for step in steps_of(ROOT / page):
        status, printed = shell.run(step.command, step.typed, step.keys)
        where = f"{page}:{step.line}: {step.command}"
        if status != step.status:
            problems.append(f"{where}\nended with exit code {status}, not {step.status}, and printed:\n" + "\n".join(printed[-30:]))
        elif step.shown is not None and not fits(step.shown, printed):
            problems.append(f"{where}\nis shown with:\n" + "\n".join(step.shown) + "\nand printed:\n" + "\n".join(printed[-60:]))
    assert not problems, "\n\n".join(problems)


def test_no_page_hides_commands_in_a_block_that_is_not_run():
    """A block of text may show commands that are not for pasting, but not with a prompt before them."""
    from page_blocks import blocks

    hidden = [
        f"{page}:{first + number}"
        for page in PAGES
        for language, first, lines in blocks((ROOT / page).read_text())
        if language not in ("console", "sh", "bash")
        for number, line in enumerate(lines)
        if line.startswith("$ ")
    ]
    assert hidden == []

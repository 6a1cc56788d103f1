"""The prompt of a task.md."""

import pytest

from trialog.engine.tasks.document import find_prompt, split_document


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        ("\nDo it.\n", "Do it."),
        ("# Title\n\n## prompt\n\nDo it.\n", "Do it."),
        ("## Prompt  \nDo it.\n\n## Notes\n\nMore.\n", "Do it.\n\n## Notes\n\nMore."),
        ("## prompt\nDo it.\n## role:judge\nJudge.\n", "Do it."),
        ("Do it.\n\n## user-persona\nNice.\n", "Do it."),
        ("```\n## prompt\n```\nDo it.\n", "```\n## prompt\n```\nDo it."),
        ("### prompt\nDo it.\n", "### prompt\nDo it."),
        ("## prompt\n\\## prompt\nDo it.\n", "## prompt\nDo it."),
        ("## prompts\nDo it.\n", "## prompts\nDo it."),
    ],
)
def test_the_prompt_is_what_is_under_its_heading_else_the_body(body, prompt):
    """Headings of the prompt's own do not end it; sections for others do."""
    assert find_prompt(body).text == prompt


def test_two_prompts_are_noticed():
    """Which one is meant can't be told."""
    assert find_prompt("## prompt\nA\n## prompt\nB\n").repeated


@pytest.mark.parametrize(
    ("text", "front", "body", "closed"),
    [
        ("---\na: 1\n---\nX", "a: 1", "X", True),
        ("--- \na: 1\n---  \nX\n---\nY", "a: 1", "X\n---\nY", True),
        ("---\n---\nX", "", "X", True),
        ("X\n---\n", None, "X\n---\n", True),
        ("---\na: 1\n", "a: 1\n", "", False),
    ],
)
def test_settings_are_between_two_lines_of_dashes(text, front, body, closed):
    """Only at the very top, and up to the next such line."""
    assert split_document(text) == (front, body, closed)

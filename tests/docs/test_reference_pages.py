"""The reference that is written from the code is as the code has it."""

import pytest
from reference_pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name]().rstrip() + "\n", "run: python tests/docs/reference_pages.py"

"""Pages of the docs that need a framework do what they say, where it is installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from tests.docs.pages import FRAMEWORKS, ROOT

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize("page", FRAMEWORKS)
def test_every_block_of_a_page_does_what_the_page_says(page: str) -> None:
    if importlib.util.find_spec(FRAMEWORKS[page]) is None:
        pytest.skip(f"{FRAMEWORKS[page]} is in another environment")
    command = [sys.executable, "-m", "tests.docs.pages", page]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {}, done.stdout

# SPDX-License-Identifier: Apache-2.0
"""Pages that are written by a program are what that program writes now."""

from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib import image

from docs import (
    generate_configuration,
    generate_gallery,
    generate_performance,
    generate_profiling,
    generate_reference,
    generate_timelines,
    generate_walkthrough,
)


def test_configuration_page_is_what_the_table_of_variables_says():
    assert generate_configuration.PAGE.read_text() == generate_configuration.page(), (
        "run: make docs"
    )


def test_reference_pages_are_what_the_docstrings_say():
    pages = generate_reference.pages()
    stale = [path.name for path, text in pages.items() if path.read_text() != text]
    assert stale == [], "run: make docs"


def test_no_reference_page_is_left_over():
    assert set(generate_reference.FOLDER.rglob("*.md")) == set(generate_reference.pages())


def test_walkthrough_shows_what_the_compiler_makes_now():
    assert generate_walkthrough.PAGE.read_text() == generate_walkthrough.page(), "run: make docs"


def test_gallery_is_what_the_table_of_pictures_says():
    assert generate_gallery.PAGE.read_text() == generate_gallery.page(), "run: make docs"
    files = {path.stem for path in generate_gallery.FOLDER.iterdir()}
    assert files == set(generate_gallery.PICTURES)


def test_timelines_are_what_their_table_and_the_measurements_say():
    assert generate_timelines.PAGE.read_text() == generate_timelines.page(), (
        "run on a GPU: python -m docs.generate_timelines"
    )
    files = {path.stem: path.stat().st_size for path in generate_timelines.FOLDER.glob("*.svg")}
    assert set(files) == set(generate_timelines.TIMELINES)
    assert max(files.values()) < 150_000


@pytest.mark.parametrize("name", ["game_of_life", "sieve"])
def test_picture_is_what_the_example_computes(name: str):
    kept = image.imread(generate_gallery.FOLDER / f"{name}.png")
    made = generate_gallery.pixels(generate_gallery.found()[name])
    assert np.array_equal(np.round(kept * 255).astype(np.uint8), made), "run: make docs"


def test_performance_is_what_the_record_says():
    folder = generate_performance.FOLDER
    record = json.loads((folder / generate_performance.RECORD).read_text())
    run = "run: python -m docs.generate_performance"
    assert (folder / generate_performance.PAGE).read_text() == generate_performance.page(record), (
        run
    )
    pictures = folder / generate_performance.PICTURES
    kept = {name: (pictures / name).read_text() for name in generate_performance.drawn_in(folder)}
    assert kept == generate_performance.pictures(record), run


def test_costs_of_profiling_are_what_the_record_says():
    record = json.loads(generate_profiling.RECORD.read_text())
    run = "run: python -m docs.generate_profiling"
    assert generate_profiling.PAGE.read_text() == generate_profiling.page(record), run
    for counts in (record["code"]["figures"][case] for case in generate_profiling.CODE):
        assert counts["track, ring"] < counts["tirx with fences"]


@pytest.mark.slow
def test_profiling_costs_are_those_of_the_named_ptxas():
    record = json.loads(generate_profiling.RECORD.read_text())["code"]
    assert generate_profiling.counted() == record, "run: python -m docs.generate_profiling"

# SPDX-License-Identifier: Apache-2.0
"""Writes docs/gallery.md and its pictures: results of some examples, computed on this machine's CPU.

In: a table of examples. Out: the page, and a small PNG for each; `python -m docs.generate_gallery` writes them, and
tests/docs compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from examples.catalog import EXAMPLES
from examples.picture import encode_png

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.common import Arguments, Example

PAGE: Final = Path(__file__).parent / "gallery.md"
FOLDER: Final = Path(__file__).parent / "images" / "gallery"


class Shown(NamedTuple):
    """How an example is shown.

    Attributes:
        size: of its arguments.
        what: words under the picture.
        picture: arguments after a run → height x width x 3 bytes; None for the example's own.
    """

    size: int
    what: str
    picture: Callable[[Arguments], np.ndarray] | None = None


def shades(values: np.ndarray, scale: int = 1) -> np.ndarray:
    """Numbers as colors from dark blue to yellow, each a square of `scale` pixels."""
    part = (values - values.min()) / max(float(np.ptp(values)), 1.0)
    part = part.repeat(scale, 0).repeat(scale, 1)[..., None]
    colors: np.ndarray = np.array([18, 22, 60]) * (1 - part) + np.array([255, 214, 90]) * part
    return colors.astype(np.uint8)


PICTURES: Final = {
    "mandelbrot": Shown(
        240, "360 x 240 points; adjacent threads leave their loops at different times"
    ),
    "game_of_life": Shown(
        80, "80 x 85 cells after 15 generations", lambda found: shades(found["board"], 4)
    ),
    "sieve": Shown(
        210 * 150,
        "the numbers up to 31,499, 210 in a row: primes are in the columns that 2, 3, 5 and 7 do not divide",
        lambda found: shades(found["is_prime"].reshape(-1, 210), 2),
    ),
    "smith_waterman": Shown(
        240,
        "the scores of all alignments of two strands; they grow along the part that both share",
        lambda found: shades(found["scores"]),
    ),
    "box_blur": Shown(180, "a picture made here, blurred"),
}


def found() -> dict[str, Example]:
    """The examples that are shown, by name."""
    named = {example.name: example for example in EXAMPLES}
    return {name: named[name] for name in PICTURES}


def pixels(example: Example) -> np.ndarray:
    """Result of an example, as height x width x 3 bytes."""
    shown = PICTURES[example.name]
    arguments = example.make_arguments(shown.size)
    example.function(**arguments)
    picture = shown.picture or example.picture
    assert picture is not None
    return picture(arguments)


def page() -> str:
    """The text of the page."""
    parts = [
        "# Gallery",
        "Results of some [examples](../examples). `python -m docs.generate_gallery` runs them on the CPU and writes this "
        "page; `python -m examples.mandelbrot cuda` runs one on a GPU, and `make demo` runs all.",
    ]
    for name, example in found().items():
        first = (example.function.__doc__ or "").partition("\n")[0]
        parts += [
            f"## {name}",
            f"{first} [The source](../examples/{name}.py).",
            f"![{PICTURES[name].what}](images/gallery/{name}.png)",
            f"*{PICTURES[name].what[0].upper()}{PICTURES[name].what[1:]}.*",
        ]
    parts += [
        "## profile_pipeline",
        "The timeline of a kernel whose warps pass tiles to each other, on an H200: [profiling.md](profiling.md). "
        "[The source](../examples/profile_pipeline.py).",
        "![six warps, each a row; the steps of a pipeline overlap](images/profile_pipeline.png)",
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the page and the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, example in found().items():
        (FOLDER / f"{name}.png").write_bytes(encode_png(pixels(example)))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()

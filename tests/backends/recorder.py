# SPDX-License-Identifier: Apache-2.0
"""Options and artifacts for calling a backend without the compiler."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.errors import WeftError


class Options:
    """The defaults of a compilation; keywords change them."""

    opt_level = 3
    generate_line_info = False
    enable_assertions = False
    math = "fast"
    ptxas_options: tuple[str, ...] = ()

    def __init__(self, **values: object) -> None:
        for name, value in values.items():
            setattr(self, name, value)


class Artifacts:
    """Keeps texts and the order of stages."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.refused: dict[str, WeftError] = {}
        self.stages: list[str] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        yield
        self.stages.append(name)

    def record(self, stage: str, content: str | bytes) -> None:
        self.contents[stage] = content.encode() if isinstance(content, str) else content

    def refuse(self, stage: str, error: WeftError) -> None:
        self.refused[stage] = error

    def data(self, stage: str) -> bytes | None:
        return self.contents.get(stage)

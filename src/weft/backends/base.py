# SPDX-License-Identifier: Apache-2.0
"""What a backend is: what it says of itself, a list of stages, and `compile`.

Out: the class of every backend, and the runner of stages. Another package offers its own through the entry point
`weft.backends`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from weft.types.device import CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from xdsl.dialects.builtin import ModuleOp

    from weft.errors import WeftError
    from weft.runtime.object_code import ObjectCode


class Recorder(Protocol):
    """Where a backend leaves texts and times; the compiler's artifacts are one."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measures the `with` block."""
        ...

    def record(self, stage: str, content: str | bytes) -> None:
        """Keeps the text or bytes of a stage."""
        ...

    def refuse(self, stage: str, error: WeftError) -> None:
        """Notes why a stage has no result here; whoever asks for it gets this error."""
        ...

    def data(self, stage: str) -> bytes | None:
        """What was kept, or None.

        Raises:
            WeftError: if the stage was refused.
        """
        ...


class Options(Protocol):
    """The compile options that a backend reads."""

    @property
    def opt_level(self) -> int: ...
    @property
    def generate_line_info(self) -> bool: ...
    @property
    def enable_assertions(self) -> bool: ...
    @property
    def ptxas_options(self) -> Sequence[str]: ...


class Job(NamedTuple):
    """One compilation as stages see it.

    Attributes:
        module: kernels, host function and wrapper.
        architecture: what to compile for, such as ``"sm_90a"``; empty for a backend that has none.
        options: the compile options.
        artifacts: takes texts and times.
    """

    module: ModuleOp
    architecture: str
    options: Options
    artifacts: Recorder


class Stage(NamedTuple):
    """One step on the way to machine code.

    Attributes:
        name: as ``--time`` shows it.
        run: takes the job and what the stage before returned.
        artifact: the name under which the result is kept, or an empty string.
    """

    name: str
    run: Callable[[Job, Any], Any]
    artifact: str = ""


def run_stages(stages: Sequence[Stage], job: Job, value: Any = None) -> Any:
    """Runs stages in order, each on the result of the one before; returns the last result."""
    for stage in stages:
        with job.artifacts.stage(stage.name):
            value = stage.run(job, value)
        if stage.artifact:
            job.artifacts.record(stage.artifact, value)
    return value


class Backend(ABC):
    """A machine that weft compiles for.

    Options and arguments are looked at with what it says of itself, so its module is light: what compiles is imported
    in `compile`.

    Attributes:
        name: what ``--target`` takes.
        device_type: DLPack's, of its tensors. Calls whose tensors have it run here.
        architectures: what ``--gpu-arch`` takes for it, a regular expression; empty: nothing.
        default_architecture: what is compiled for where neither options nor a device say it.
        stages: the texts that it makes of LLVM's, which ``--keep`` options ask for.
    """

    name: str
    device_type: int
    architectures: str = ""
    default_architecture: str = ""
    stages: tuple[str, ...] = ()

    @property
    def runs_on_host(self) -> bool:
        """Whether kernels run on the CPU that calls them: without streams, on the clock of the host."""
        return self.device_type == CPU

    def find_architecture(self, ordinal: int | None) -> str | None:
        """What a device of this machine runs; None where nothing here runs what this backend compiles.

        Args:
            ordinal: of the device; None, or one that this machine does not have, is the current device.
        """
        return None

    @abstractmethod
    def compile(self, job: Job) -> ObjectCode:
        """Machine code of the kernels, the host function and its wrapper.

        Raises:
            ToolchainError: if an assembler is missing or failed.
            OptionError: if the architecture is unknown.
        """

    def disassemble(self, artifacts: Recorder) -> str | None:
        """The kernels' machine code as text, from what `compile` recorded; None where there is none."""
        return None

# SPDX-License-Identifier: Apache-2.0
"""The base class of backends: their facts, a list of stages, and `compile`.

Out: the base class and the runner of stages. Other packages add backends through the entry point
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
    from weft.runtime.code_image import ObjectCode


class Recorder(Protocol):
    """Collects a backend's texts and times; implemented by the compiler's artifacts."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measures the `with` block."""
        ...

    def record(self, stage: str, content: str | bytes) -> None:
        """Keeps the text or bytes of a stage."""
        ...

    def refuse(self, stage: str, error: WeftError) -> None:
        """Records why a stage has no result; reading it raises this error."""
        ...

    def data(self, stage: str) -> bytes | None:
        """The kept result, or None.

        Raises:
            WeftError: if the stage was refused.
        """
        ...


class Options(Protocol):
    """The compile options read by backends."""

    @property
    def opt_level(self) -> int: ...
    @property
    def generate_line_info(self) -> bool: ...
    @property
    def enable_assertions(self) -> bool: ...
    @property
    def math(self) -> str: ...
    @property
    def ptxas_options(self) -> Sequence[str]: ...


class Job(NamedTuple):
    """One compilation, as seen by stages.

    Attributes:
        module: kernels, host function and wrapper.
        architecture: the target architecture, such as ``"sm_90a"``; empty for a backend without architectures.
        options: the compile options.
        artifacts: takes texts and times.
        host: the CPU of the host code, a `weft.backends.host.HostMachine`; None for this process's.
    """

    module: ModuleOp
    architecture: str
    options: Options
    artifacts: Recorder
    host: Any = None


class Stage(NamedTuple):
    """One step on the way to machine code.

    Attributes:
        name: as ``--time`` shows it.
        run: takes the job and the previous stage's result.
        artifact: the name under which the result is kept, or an empty string.
    """

    name: str
    run: Callable[[Job, Any], Any]
    artifact: str = ""


def run_stages(stages: Sequence[Stage], job: Job, value: Any = None) -> Any:
    """Runs stages in order, each on the previous result; returns the last."""
    for stage in stages:
        with job.artifacts.stage(stage.name):
            value = stage.run(job, value)
        if stage.artifact:
            job.artifacts.record(stage.artifact, value)
    return value


class Backend(ABC):
    """A machine that weft compiles for.

    Its facts are needed to read options and arguments, so its module imports little: the compiler is imported
        in `compile`.

    Attributes:
            name: as in ``--target``.
            device_type: DLPack's device type of its tensors; calls with such tensors run here.
            architectures: a regular expression of its values of ``--gpu-arch``; empty for none.
            default_architecture: the architecture without an option or a device.
            stages: the texts made from LLVM's, for ``--keep`` options.
            checks: of the sanitizer, that its kernels can have.
    """

    name: str
    device_type: int
    architectures: str = ""
    default_architecture: str = ""
    stages: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def runs_on_host(self) -> bool:
        """Whether kernels run on the CPU that calls them: without streams, on the clock of the host."""
        return self.device_type == CPU

    def find_architecture(self, ordinal: int | None) -> str | None:
        """The architecture of a device of this machine; None if none runs this backend's code.

        Args:
            ordinal: of the device; None, or one missing here, for the current device.
        """
        return None

    def tools_version(self) -> str | None:
        """Digest of what makes the machine code besides weft, without running it; None: nothing is kept on disk."""
        return None

    @abstractmethod
    def compile(self, job: Job) -> ObjectCode:
        """Machine code of the kernels, the host function and its wrapper.

        Raises:
            ToolchainError: if an assembler is missing or failed.
            OptionError: if the architecture is unknown.
        """

    def emit_exported(self, job: Job, glue: str) -> bytes | None:
        """The object of a job that `compile` has done, with more LLVM text in it; None: it cannot be exported.

        Args:
            job: its artifacts hold the texts of `compile`; its module is not read.
            glue: LLVM text beside the host function's, whose variable ``weft_state`` becomes internal.
        """
        return None

    def disassemble(self, artifacts: Recorder) -> str | None:
        """The kernels' machine code as text, from the artifacts of `compile`, or None."""
        return None

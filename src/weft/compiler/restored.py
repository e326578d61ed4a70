# SPDX-License-Identifier: Apache-2.0
"""The texts of a compilation that another process did.

In: what it kept. Out: artifacts, which make the rest on request and then need the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.compiler.artifacts import Artifacts
from weft.imports import imported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.arguments.signature import Signature
    from weft.backends.base import Backend
    from weft.compiler.options import CompileOptions
    from weft.errors import WeftError


def restored_artifacts(
    name: str,
    options: CompileOptions,
    signature: Signature,
    backend: Backend,
    modules: tuple[str, ...],
    texts: Mapping[str, bytes | WeftError],
) -> Artifacts:
    """The artifacts of a compilation in another process; what is made on request needs the compiler.

    Args:
        name: the function's.
        options: it was compiled with.
        signature: of the function.
        backend: that compiled it.
        modules: names of the module's stages.
        texts: what `Artifacts.kept` gave.
    """
    artifacts = Artifacts(name, options)
    artifacts.modules = modules
    artifacts.restore(texts)

    def lower_again(kept: Artifacts) -> Mapping[str, str]:
        return imported("weft.compiler.pipeline").lower_again(signature, kept)

    if modules:
        artifacts.offer((*modules, "ir"), lower_again)
    artifacts.offer(("sass",), lambda kept: {"sass": backend.disassemble(kept)})
    return artifacts

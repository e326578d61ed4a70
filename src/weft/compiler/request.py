# SPDX-License-Identifier: Apache-2.0
"""The signature that a caller asks for; imports no compiler.

In: a function's source, example arguments or a signature. Out: a signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.arguments.signature import Signature, infer_signature

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.frontend.source import FunctionSource


def requested_signature(
    source: FunctionSource,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    is_call: bool = False,
) -> Signature:
    """The signature of a function for these arguments: those of a direct call, or examples.

    Raises:
        SignatureError: if none can be made from the arguments.
    """
    if len(arguments) == 1 and not keywords and isinstance(arguments[0], Signature):
        return arguments[0].checked_for(source.name, source.parameters)
    return infer_signature(
        source.name, source.parameters, arguments, keywords, has_addresses=is_call
    )

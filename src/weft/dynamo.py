# SPDX-License-Identifier: Apache-2.0
"""torch.compile's treatment of weft's functions: it calls them, and does not trace into them.

In: a function that users call. Out: the same, with the two attributes by which torch's tracer (Dynamo) knows a function
that it is to leave to Python. torch is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])


# Their functions become operators and layers of a graph.
_TRACED: Final = frozenset(
    f"weft.{name}" for name in ("errors", "hf", "kernels", "nn", "torch_operators")
)


class _Told:
    """Is true, and registers the rest of the package with Dynamo when it asks, since Dynamo is imported only then.

    Python calls the function after the tracer has left it; the tracer would look at the frames below once more.
    """

    def __bool__(self) -> bool:
        from importlib import import_module
        from pkgutil import iter_modules

        rules = cast("Any", import_module("torch._dynamo.trace_rules"))
        package = cast("Any", import_module("weft"))
        for module in iter_modules(package.__path__, "weft."):
            if module.name not in _TRACED:
                rules.add(module.name)
        return True


_TOLD = _Told()


def left_to_python(
    function: _F,
    reason: str = "weft compiles its functions itself; make it an operator of torch with weft.torch.custom_op",
) -> _F:
    """Marks a function that users call; where the graph has to be whole, the reason is in torch's error."""
    marked = cast("Any", function)
    marked._torchdynamo_disable = _TOLD
    marked._torchdynamo_disable_msg = reason
    return function

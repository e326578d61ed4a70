# SPDX-License-Identifier: Apache-2.0
"""The profiler's host side: buffers of records in, tables and timelines out.

Knows where each public name is defined and imports it on first use, like `weft` itself. The names
that kernels use are `LanguageName`s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.language import LanguageName
    from weft.language.profiling.profiler import CudaProfiler as CudaProfiler
    from weft.language.profiling.profiler import Profiler as Profiler
    from weft.profiler.buffers import buffer as buffer
    from weft.profiler.buffers import prepare as prepare
    from weft.profiler.calibration import Calibration as Calibration
    from weft.profiler.calibration import calibrate as calibrate
    from weft.profiler.calibration import inflation as inflation
    from weft.profiler.capturing import capture as capture
    from weft.profiler.records import Launch as Launch
    from weft.profiler.records import Recording as Recording
    from weft.profiler.tirx import decode_tag as decode_tag
    from weft.profiler.tirx import decode_tirx as decode_tirx
    from weft.profiler.tirx import export_to_perfetto_trace as export_to_perfetto_trace
    from weft.profiler.trace import Trace as Trace
    from weft.profiler.track import decode_track as decode_track

_PUBLIC = {
    "weft.profiler.buffers": ("buffer", "prepare"),
    "weft.profiler.calibration": ("Calibration", "calibrate", "inflation"),
    "weft.profiler.capturing": ("capture",),
    "weft.profiler.track": ("decode_track",),
    "weft.profiler.records": ("Launch", "Recording"),
    "weft.profiler.trace": ("Trace",),
    "weft.profiler.tirx": ("decode_tag", "decode_tirx", "export_to_perfetto_trace"),
}
_KERNEL = ("CudaProfiler", "Profiler")
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}


def _language_name(name: str) -> LanguageName:
    from weft.imports import imported

    return imported("weft.language").language_name(f"profiler.{name}")


def __getattr__(name: str) -> object:
    """Import what `name` needs, once."""
    if name == "__all__":
        return sorted([*_MODULE_OF, *_KERNEL])
    if name in _KERNEL:
        value: object = _language_name(name)
    elif name in _MODULE_OF:
        from weft.imports import imported

        try:
            value = getattr(imported(_MODULE_OF[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "numpy":
                raise
            raise ImportError(
                "weft.profiler needs NumPy: pip install weft-lang[profiler]"
            ) from error
    else:
        raise AttributeError(f"module 'weft.profiler' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, *_KERNEL])

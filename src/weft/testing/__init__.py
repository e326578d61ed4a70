# SPDX-License-Identifier: Apache-2.0
"""`weft.testing`: results in other orders of threads and on other targets, and traces of one thread, line by line.

In: a function that launches kernels on the CPU, and its arguments. Out: nothing or an error; a `ThreadTrace`.
"""

from __future__ import annotations

from weft.testing.orders import (
    ORDERS,
    Order,
    OrderError,
    TargetError,
    check_orders,
    check_targets,
    in_order,
)
from weft.testing.thread_trace import ThreadTrace, TracedLaunch, TraceEvent, trace_thread

__all__ = [
    "ORDERS",
    "Order",
    "OrderError",
    "TargetError",
    "ThreadTrace",
    "TraceEvent",
    "TracedLaunch",
    "check_orders",
    "check_targets",
    "in_order",
    "trace_thread",
]

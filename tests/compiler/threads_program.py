# SPDX-License-Identifier: Apache-2.0
"""Eight threads whose first acts are to compile; run in a fresh process by test_threads.py.

Nothing of the compiler is imported before the threads start, so they also race for its imports. Prints how often each
function was compiled.
"""

from __future__ import annotations

import collections
import json
import logging
import threading

import numpy

import weft

THREADS = 8
compiled: collections.Counter[str] = collections.Counter()


class Count(logging.Handler):
    """Counts the line that each compilation logs."""

    def emit(self, record: logging.LogRecord) -> None:
        compiled[str(record.args[0])] += 1


@weft.kernel
def add_kernel(a, b, value):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + value


@weft.jit
def same(a, b, value):
    add_kernel(a, b, value).launch(grid=weft.ceil_div(a.shape[0], 32), block=32)
    return a.shape[0]


def make(number: int):
    @weft.kernel
    def kernel(a, b):
        i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
        if i < a.shape[0]:
            b[i] = a[i] * number

    @weft.jit
    def own(a, b):
        kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 32), block=32)

    return own


def work(number: int, start: threading.Barrier, wrong: list[str]) -> None:
    a = numpy.arange(100, dtype=numpy.float32)
    b = numpy.zeros_like(a)
    start.wait()
    try:
        if same(a, b, 2.5) != 100 or not (b == a + 2.5).all():
            wrong.append(f"same in {number}")
        OWN[number](a, b)
        if not (b == a * number).all():
            wrong.append(f"own {number}")
        if same(a, b, number + 0.5) != 100 or not (b == a + number + 0.5).all():
            wrong.append(f"same again in {number}")
        weft.compile(OWN[number], a, b)(a, b)
        if not (b == a * number).all():
            wrong.append(f"compiled {number}")
        fake = weft.fake_tensor(weft.f32, ("n",))
        if not weft.compile(OWN[number], fake, fake, options="--gpu-arch sm_90a").cubin:
            wrong.append(f"for a GPU {number}")
    except BaseException as error:  # reported by the parent
        wrong.append(f"{number}: {type(error).__name__}: {error}")


OWN = [make(number) for number in range(THREADS)]


def main() -> None:
    logging.getLogger("weft").setLevel(logging.INFO)
    logging.getLogger("weft").addHandler(Count())
    start, wrong = threading.Barrier(THREADS), list[str]()
    threads = [threading.Thread(target=work, args=(i, start, wrong)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"wrong": wrong, "compiled": compiled}))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Programs of the stress tests, in processes of their own: ``python -m tests.stress.programs <name> <seconds>``.

Each ends by itself, prints what it did as JSON, and has an exit status that is not 0 where something was wrong.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback

import numpy as np

import weft


@weft.kernel
def scale_kernel(a: weft.Tensor, factor: weft.Constexpr):
    i = weft.thread_idx.x
    if i < a.shape[0]:
        a[i] = a[i] * factor


@weft.jit
def scale(a: weft.Tensor, factor: weft.Constexpr):
    scale_kernel(a, factor).launch(grid=1, block=32)


def check(factor: float) -> None:
    """One specialization, compiled and run."""
    a = np.ones(32, np.float32)
    scale(a, factor)
    if not (a == np.float32(factor)).all():
        raise AssertionError(f"{factor}: {a}")


def check_for_a_gpu() -> None:
    fake = weft.fake_tensor(weft.f32, ("n",))
    if not weft.compile(scale, fake, 2.0, options="--gpu-arch sm_90a").ptx:
        raise AssertionError("no PTX")


class Interrupt(BaseException):
    pass


class Storm:
    """Raises in the main thread, at random moments, until it is over."""

    def __init__(self):
        self.count = 0
        self.on = False

    def __enter__(self):
        self.on = True
        signal.signal(signal.SIGALRM, self.strike)
        if not signal.getitimer(signal.ITIMER_REAL)[0]:  # short launches share one
            self.again()
        return self

    def strike(self, *_):
        if not self.on:
            return
        self.count += 1
        self.again()
        raise Interrupt

    def again(self):
        signal.setitimer(signal.ITIMER_REAL, random.expovariate(1 / 0.1) + 0.0005)

    def __exit__(self, *_):
        self.on = False


def within(seconds: float, call) -> bool:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def signals(seconds: float, launch=check):
    """The main thread compiles and runs under a storm of signals; another thread must get on after it."""
    launch(1.0)
    done = interrupted = number = 0
    end = time.monotonic() + seconds
    storm = Storm()
    while time.monotonic() < end:
        number += 1
        try:
            try:
                with storm:
                    launch(float(number))
                    done += 1
            finally:
                storm.on = False
        except Interrupt:
            interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    # What was being compiled when the last signal came, and something new.
    for factor in (float(number), -1.0, 1.0):
        if not within(60, lambda factor=factor: launch(factor)):
            raise AssertionError("another thread waits forever")
    return {"signals": storm.count, "done": done, "interrupted": interrupted}


def forks(seconds: float):
    """Children of a process whose threads compile without a pause; each child compiles both ways."""
    check(1.0)
    end = time.monotonic() + seconds
    stop = threading.Event()
    errors: list[BaseException] = []

    def compile_on(number: int):
        factor = number * 1000.0
        while not stop.is_set():
            factor += 1
            try:
                check(factor)
                check_for_a_gpu()
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=compile_on, args=(n,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    children = 0
    failed = []
    while time.monotonic() < end and not errors:
        time.sleep(random.uniform(0, 0.05))
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(90)
            faulthandler.dump_traceback_later(60)
            code = 1
            try:
                check(-float(children))
                check(1000.0)
                check_for_a_gpu()
                code = 0
            except BaseException:
                traceback.print_exc()  # os._exit would leave nothing of it
            finally:
                os._exit(code)
        children += 1
        status = os.waitpid(child, 0)[1]
        if status:
            failed.append(status)
    stop.set()
    for thread in threads:
        thread.join()
    if failed or errors:
        raise AssertionError(f"children {failed}, threads {errors}")
    return {"children": children}


def threads(_seconds: float):
    """64 threads on one new function, each also on types of its own."""
    start = threading.Barrier(64)
    errors: list[str] = []

    def work(number: int):
        start.wait()
        try:
            check(2.0)
            check(float(number % 8 + 3))
        except BaseException as error:
            errors.append(repr(error))

    running = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise AssertionError(errors[:3])
    return {"threads": len(running)}


def daemons(seconds: float):
    """Ends while daemon threads compile, run and unload, in whatever they are just doing."""
    check(1.0)

    def work(number: int):
        factor = number * 1000.0
        while True:
            factor += 1
            a = np.ones(32, np.float32)
            weft.compile(scale, a, factor)(a)
            check_for_a_gpu()

    for number in range(3):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    time.sleep(random.uniform(0, seconds))
    return {}


def on_the_fake_driver(seconds: float):
    """The same storm where kernels are loaded and launched by a CUDA driver; the fake one runs nothing."""
    numbers = iter(range(1, 1 << 30))

    def launch(_factor: float):
        a = weft.empty(32, weft.f32, "cuda:0")
        scale(a, float(next(numbers) % 5))
        weft.synchronize("cuda:0")

    return signals(seconds, launch)


def with_all_files_taken(_seconds: float):
    """Compiles with no file left to open, then with all of them."""
    check(1.0)
    check_for_a_gpu()  # what is imported and opened once is there
    taken = []
    while True:
        try:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            break
    said = []
    for compile_it in (lambda: check(2.0), check_for_a_gpu):
        try:
            compile_it()
            said.append("compiled")
        except weft.WeftError as error:
            if "RLIMIT_NOFILE" not in error.message and "Too many open files" not in error.message:
                raise
            said.append(error.code)
    for number in taken:
        os.close(number)
    check(3.0)
    check_for_a_gpu()
    return {"taken": said, "freed": "compiled"}


def compiles(_seconds: float):
    """Compiles for both targets, whatever is missing."""
    check(2.0)
    check_for_a_gpu()
    return {"done": True}


def without_threads(_seconds: float):
    """Compiles for both targets once the user has no thread left, as root as another user."""
    check(1.0)
    check_for_a_gpu()  # what is imported once is there
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        threading.Thread(target=time.time).start()
        return {"limited": False}
    except RuntimeError:
        check(2.0)
        check_for_a_gpu()
        return {"limited": True}


PROGRAMS = {
    each.__name__: each
    for each in (
        signals,
        forks,
        threads,
        daemons,
        on_the_fake_driver,
        with_all_files_taken,
        compiles,
        without_threads,
    )
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](float(sys.argv[2]))), flush=True)

# SPDX-License-Identifier: Apache-2.0
"""libtvm_ffi is found without importing its package, and opened when it is first needed."""

import subprocess
import sys

import pytest

from weft import _native
from weft.ffi import library


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_the_extension_opens_nothing():
    run(
        "import sys\n"
        "from weft import _native\n"
        "assert not _native.ffi_library_is_open()\n"
        "assert not {'numpy', 'torch', 'tvm_ffi'} & set(sys.modules)\n"
        "assert 'libtvm_ffi' not in open('/proc/self/maps').read()\n"
    )


def test_the_first_function_opens_the_library_without_its_package():
    run(
        "import sys\n"
        "from weft import _native\n"
        "_native.Function.from_address(1, None)\n"
        "assert _native.ffi_library_is_open()\n"
        "assert 'tvm_ffi' not in sys.modules\n"
    )


def test_importing_the_extension_installs_no_signal_handler():
    run(
        "import signal\n"
        "before = [signal.getsignal(s) for s in signal.valid_signals()]\n"
        "from weft import _native\n"
        "from weft.ffi.library import open_ffi_library\n"
        "open_ffi_library()\n"
        "assert before == [signal.getsignal(s) for s in signal.valid_signals()]\n"
    )


def test_the_library_is_found_and_opening_it_twice_is_harmless():
    assert library.find_ffi_library().endswith("libtvm_ffi.so")
    library.open_ffi_library()
    library.open_ffi_library()
    assert _native.ffi_library_is_open()


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(library, "find_spec", lambda _name: None)
    with pytest.raises(ImportError, match="pip install apache-tvm-ffi"):
        library.find_ffi_library()


def test_a_file_that_is_not_a_library_is_refused():
    program = (
        "from weft import _native\n"
        "try:\n"
        "    _native.open_ffi_library('/nonexistent/libtvm_ffi.so')\n"
        "except ImportError as error:\n"
        "    assert 'cannot open libtvm_ffi' in str(error)\n"
        "else:\n"
        "    raise SystemExit('opened')\n"
        "assert not _native.ffi_library_is_open()\n"
    )
    run(program)

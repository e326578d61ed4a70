# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading

import pytest

from weft import config as module
from weft.config import config, misspelled_variables, override, variables

pytestmark = pytest.mark.joined


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch):
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)


def test_a_switch_is_off_unless_set(monkeypatch: pytest.MonkeyPatch):
    assert config.backtrace is False
    monkeypatch.setenv("WEFT_BACKTRACE", "1")
    assert config.backtrace is True


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_BACKTRACE", "")
    monkeypatch.setenv("WEFT_PTXAS", "")
    assert config.backtrace is False
    assert config.ptxas is None


def test_a_switch_refuses_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_BACKTRACE", "maybe")
    with pytest.raises(ValueError, match="WEFT_BACKTRACE is 'maybe', expected 1 or 0"):
        _ = config.backtrace


def test_a_path_is_taken_as_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_PTXAS", "~/ptxas")
    assert config.ptxas == "~/ptxas"


def test_override_beats_the_environment_and_ends_with_its_block(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("WEFT_BACKTRACE", "1")
    with override(backtrace=False, ptxas="/a"):
        assert (config.backtrace, config.ptxas) == (False, "/a")
        with override(ptxas="/b"):
            assert (config.backtrace, config.ptxas) == (False, "/b")
        assert config.ptxas == "/a"
    assert (config.backtrace, config.ptxas) == (True, None)


def test_override_ends_when_its_block_raises():
    with pytest.raises(KeyError), override(backtrace=True):
        raise KeyError
    assert config.backtrace is False


def test_override_does_not_reach_other_threads():
    seen: list[bool] = []
    with override(backtrace=True):
        thread = threading.Thread(target=lambda: seen.append(config.backtrace))
        thread.start()
        thread.join()
    assert seen == [False]


def test_override_refuses_an_unknown_field_and_lists_the_fields():
    with pytest.raises(TypeError, match=r"no configuration field 'ptxs', expected one of: .*ptxas"):
        with override(ptxs="/a"):
            pass


def test_override_refuses_a_value_of_the_wrong_kind():
    with pytest.raises(ValueError, match="'backtrace' is 1 or 0, received 'yes'"):
        with override(backtrace="yes"):
            pass


def test_misspelled_variables_are_found_and_others_left_alone(
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("WEFT_BACKTRCE", "WEFT_NUM_THREAD", "WEFT_LIBCUDA_PATH"):
        monkeypatch.setenv(name, "1")
    for name in ("WEFT_TEST_ANYTHING", "WEFT_HOME", "WEFT_SERVER_PORT", "WEFT_DEBUG", "WEFTLOG"):
        monkeypatch.setenv(name, "1")
    assert misspelled_variables() == {
        "WEFT_BACKTRCE": "WEFT_BACKTRACE",
        "WEFT_NUM_THREAD": "WEFT_NUM_THREADS",
        "WEFT_LIBCUDA_PATH": "WEFT_LIBCUDA",
    }


@pytest.mark.parametrize("variable", variables(), ids=lambda variable: variable.name)
def test_every_variable_is_named_after_its_field_and_documented(variable: module.Variable):
    assert variable.name == f"WEFT_{variable.field.upper()}"
    assert variable.doc.endswith(".")


def test_a_word_is_one_of_those_listed_in_any_case(monkeypatch: pytest.MonkeyPatch):
    assert config.log is None
    monkeypatch.setenv("WEFT_LOG", "Info")
    assert config.log == "info"
    monkeypatch.setenv("WEFT_LOG", "all")
    with pytest.raises(
        ValueError, match="WEFT_LOG is 'all', expected one of debug, info, warning, error"
    ):
        _ = config.log
    with override(log="error"):
        assert config.log == "error"
    with pytest.raises(
        ValueError, match="'log' is one of debug, info, warning, error, received 'all'"
    ):
        with override(log="all"):
            pass

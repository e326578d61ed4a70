# SPDX-License-Identifier: Apache-2.0
"""Compile options: both forms, every row of the table, every way to get one wrong."""

import pytest

import weft
from weft.backends.registry import find_backend
from weft.compiler import options as module
from weft.compiler.options import (
    OPTIONS,
    EnableTVMFFI,
    GPUArch,
    KeepPTX,
    OptLevel,
    make_options,
    parse_options,
    typed_options,
)
from weft.config import SANITIZER_CHECKS, SANITIZER_DEFECTS, SANITIZER_MODES, config, override
from weft.errors import OptionError

pytestmark = pytest.mark.joined

VALUES = {
    "--executor": "context",
    "--target": "cuda",
    "--gpu-arch": "sm_90a",
    "--opt-level": "2",
    "--dump-dir": "somewhere",
    "--fp-contract": "off",
    "--math": "portable",
    "--ptxas-options": "-v",
    "--sanitize": "bounds",
}


def test_empty_string_is_not_an_option():
    assert parse_options("") == []


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flag)
def test_every_option_has_both_forms_and_sets_its_field(option):
    text = f"{option.flag} {VALUES[option.flag]}" if option.takes else option.flag
    (from_text,) = parse_options(text)
    assert type(from_text) is option
    typed = option(option.read(VALUES[option.flag])) if option.takes else option
    assert typed_options(typed)[0].value == from_text.value
    options = make_options(text)
    default = getattr(make_options(), option.field)
    assert getattr(options, option.field) != default


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flag)
def test_every_option_is_documented_and_in_the_public_names(option):
    assert option.__doc__
    assert getattr(module, option.__name__) is option


@pytest.mark.parametrize(
    "text", ["--opt-level 2", " --opt-level\t2\n", "'--opt-level' \"2\"", "--opt\\-level 2"]
)
def test_a_string_is_split_as_a_shell_does(text):
    assert [option.value for option in parse_options(text)] == [2]


def test_equals_sign_and_space_separate_the_value():
    assert parse_options("--opt-level=1")[0].value == parse_options("--opt-level 1")[0].value == 1


def test_quoted_value_is_one_value():
    assert parse_options("--ptxas-options '-v -O1'")[0].value == ("-v", "-O1")


def test_the_last_of_two_values_wins():
    assert make_options("--opt-level 1", [OptLevel(2)]).opt_level == 1


def test_defaults_come_before_typed_options():
    assert make_options("", [OptLevel(2)], defaults=[OptLevel(0)]).opt_level == 2


def test_none_is_not_an_option():
    assert make_options(None).opt_level == make_options().opt_level == 3


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_or_tuple_holds_options_and_strings(kind):
    options = make_options(kind([OptLevel(1), "--keep-ptx --keep-ir", EnableTVMFFI]))
    assert (options.opt_level, options.keep, options.enable_tvm_ffi) == (1, {"ptx", "ir"}, True)
    assert make_options(kind([])).opt_level == 3


@pytest.mark.parametrize(
    "options", [None, [], [OptLevel(1)], ["--opt-level 1"], OptLevel(1), "--opt-level 1"]
)
def test_every_form_is_taken_by_the_decorator_and_by_compile(options):
    @weft.jit(options=options)
    def one():
        return 1

    assert one() == weft.compile(one, options=options)() == 1


def test_an_executor_is_one_of_wefts_own():
    class Mine:
        name, load_policy = "mine", 1

    with pytest.raises(
        OptionError, match="takes one of context, library, tvm-ffi, received <class"
    ):
        weft.UseExecutor(Mine)


@pytest.mark.parametrize("given", [3, [3], [None], [[OptLevel(1)]], {"a": 1}])
def test_a_value_that_is_not_an_option_is_named_with_its_place(given):
    with pytest.raises(OptionError, match="options= takes options, received"):
        make_options(given)


def test_keep_options_accumulate_and_can_be_taken_back():
    assert make_options("--keep-ptx --keep-ir").keep == {"ptx", "ir"}
    assert make_options("--keep-ir", [KeepPTX()], defaults=[KeepPTX(False)]).keep == {"ptx", "ir"}
    assert make_options(KeepPTX(False), [KeepPTX()]).keep == frozenset()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--optlevel 3", "there is no option '--optlevel'"),
        ("opt", "there is no option 'opt'"),
        ("--opt-level", "option --opt-level takes an integer from 0 to 3, received nothing"),
        ("--opt-level 4", "option --opt-level takes an integer from 0 to 3, received 4"),
        ("--opt-level high", "option --opt-level takes an integer from 0 to 3, received 'high'"),
        ("--opt-level=", "option --opt-level takes an integer from 0 to 3, received ''"),
        (
            "--gpu-arch sm_1",
            "option --gpu-arch takes an architecture such as sm_90a, received 'sm_1'",
        ),
        ("--executor fast", "option --executor takes one of context, library, tvm-ffi"),
        ("--enable-tvm-ffi=1", "option --enable-tvm-ffi takes no value, received '1'"),
        (
            "--dump-dir 'a\0b'",
            r"option --dump-dir takes the path of a directory, received 'a\x00b'",
        ),
        (
            "--target 'c\0'",
            r"option --target takes a backend's name, such as cpu or cuda, received 'c\x00'",
        ),
        (
            "--ptxas-options '\0'",
            r"option --ptxas-options takes a string of ptxas options, received '\x00'",
        ),
        ("--dump-dir ''", "option --dump-dir takes the path of a directory, received ''"),
        ("--ptxas-options 'open", "cannot split options"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_is_allowed(text, message):
    with pytest.raises(OptionError) as caught:
        make_options(text)
    assert message in str(caught.value)


def test_an_unknown_option_lists_all_options():
    with pytest.raises(OptionError) as caught:
        parse_options("--fast")
    for option in OPTIONS:
        assert option.flag in caught.value.hint


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *((check, check) for check in (*SANITIZER_CHECKS, *SANITIZER_MODES)),
        ("all", ",".join(SANITIZER_DEFECTS)),
        ("nan, all,bounds", ",".join([*SANITIZER_DEFECTS, "nan"])),
    ],
)
def test_sanitize_takes_each_check_and_all_that_are_defects(given, expected):
    assert weft.Sanitize(given).value == expected
    with override(sanitize=given):
        assert config.sanitize == expected


def test_sanitize_alone_means_bounds():
    options = parse_options("--sanitize --time --sanitize=bounds")
    assert [option.value for option in options] == ["bounds", True, "bounds"]


@pytest.mark.parametrize("wrong", [5, None, "--time", object, (EnableTVMFFI, 3)])
def test_brackets_take_options_only(wrong):
    with pytest.raises(OptionError, match="takes options, received"):
        typed_options(wrong)


def test_brackets_refuse_a_class_that_needs_a_value():
    with pytest.raises(OptionError, match=r"weft\.GPUArch takes an architecture"):
        typed_options(GPUArch)


@pytest.mark.parametrize("value", [True, "2", 2.0, None, -1, 4])
def test_opt_level_takes_only_integers_from_0_to_3(value):
    with pytest.raises(OptionError):
        OptLevel(value)


@pytest.mark.parametrize(
    "text", ["--gpu-arch sm_90 --target cpu", "--enable-tvm-ffi --executor context"]
)
def test_options_that_contradict_each_other_are_refused(text):
    with pytest.raises(OptionError) as caught:
        make_options(text)
    assert caught.value.code == "OPTION_CONFLICT"


SAID_LATER = [
    ("--gpu-arch sm_90", "--target cpu", {"gpu_arch": None, "target": "cpu"}),
    ("--gpu-arch sm_90", "--target portable", {"gpu_arch": None, "target": "portable"}),
    ("--gpu-arch sm_90", "--target cuda", {"gpu_arch": "sm_90", "target": "cuda"}),
    ("--target cpu", "--gpu-arch sm_90", {"gpu_arch": "sm_90", "target": None}),
    ("--target cuda", "--gpu-arch sm_90", {"gpu_arch": "sm_90", "target": "cuda"}),
    (
        "--executor context",
        "--enable-tvm-ffi",
        {"executor": None, "enable_tvm_ffi": True},
    ),
    (
        "--executor tvm-ffi",
        "--enable-tvm-ffi",
        {"executor": "tvm-ffi", "enable_tvm_ffi": True},
    ),
    (
        "--enable-tvm-ffi",
        "--executor library",
        {"executor": "library", "enable_tvm_ffi": False},
    ),
    (
        "--enable-tvm-ffi",
        "--executor tvm-ffi",
        {"executor": "tvm-ffi", "enable_tvm_ffi": True},
    ),
]


@pytest.mark.parametrize(("first", "second", "expected"), SAID_LATER)
def test_what_is_said_later_wins_over_what_contradicts_it(first, second, expected):
    earlier, later = parse_options(first), parse_options(second)
    for options in (
        make_options(second, earlier),
        make_options(second, (), earlier),
        make_options("", later, earlier),
    ):
        assert {name: getattr(options, name) for name in expected} == expected


def test_contradicting_options_are_refused_everywhere():
    contradiction = parse_options("--target cpu --gpu-arch sm_90")
    for given in ({"typed": contradiction}, {"defaults": contradiction}):
        with pytest.raises(OptionError, match="implies --target cuda"):
            make_options("", **given)


def test_options_know_which_of_them_only_the_decorator_said():
    defaults = parse_options("--gpu-arch sm_90 --keep-ptx --keep-ir --opt-level 1")
    options = make_options("--opt-level 2 --keep-ir", (), defaults)
    assert options.defaults == {"gpu_arch", "ptx"}
    options.fit(find_backend("cpu"))
    assert (options.gpu_arch, options.keep, options.opt_level) == (None, {"ir"}, 2)


def test_gpu_arch_implies_cuda():
    assert make_options("--gpu-arch sm_80").wants_target == "cuda"
    assert make_options("").wants_target is None

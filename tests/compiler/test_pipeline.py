# SPDX-License-Identifier: Apache-2.0
"""The main path: what compile takes, where it runs, what can be asked of the result."""

import copy
import gc
import inspect
import logging
import pickle
import sys
import zlib

import numpy as np
import pytest
import tvm_ffi
from xdsl.dialects.builtin import StringAttr
from xdsl.parser import Parser

import weft
from weft.config import override
from weft.dialects.context import make_context
from weft.dialects.simt.kernel import KernelOp, ReturnOp

pytestmark = pytest.mark.joined

F32 = weft.Tensor[weft.f32, ("n",)]
factor = 2.0


@weft.kernel
def scale_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] * factor


@weft.jit
def scale(a: F32, b: F32):
    scale_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 64), block=64)


def arrays(n=100):
    a = np.arange(n, dtype=np.float32)
    return a, np.zeros_like(a)


@pytest.fixture(scope="module")
def compiled():
    return weft.compile(scale, *arrays())


def fakes():
    return [weft.fake_tensor(weft.f32, (weft.sym("n"),)) for _ in range(2)]


# ---- what compile takes


def test_a_compiled_function_takes_any_length(compiled):
    for n in (0, 1, 64, 65, 10_000):
        a, b = arrays(n)
        assert compiled(a, b) is None
        np.testing.assert_array_equal(b, a * 2)


@pytest.mark.parametrize("wrong", [object(), {"a": 1}, int], ids=["object", "dict", "class"])
def test_an_unknown_class_is_refused_with_the_expected_kind(compiled, wrong):
    kind = type(wrong).__name__
    with pytest.raises(TypeError) as caught:
        compiled(arrays()[0], wrong)
    expected = f"argument #1 'b': expected a tensor, received a Python object of type {kind}"
    assert str(caught.value).endswith(expected)
    references = sys.getrefcount(wrong)
    for _ in range(3):
        with pytest.raises(TypeError, match="expected a tensor"):
            compiled(wrong, wrong)
    assert sys.getrefcount(wrong) == references


def test_an_annotation_alone_is_enough():
    a, b = arrays()
    weft.compile(scale)(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_the_signature_of_a_compiled_function_compiles_again(compiled):
    again = weft.compile(scale, compiled.signature)
    assert again.signature == compiled.signature
    assert str(again.signature) == "scale(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)])"
    a, b = arrays()
    again(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_the_signature_of_another_function_is_refused(compiled):
    @weft.jit
    def other(x: F32):
        scale_kernel(x, x).launch(grid=1, block=1)

    with pytest.raises(weft.SignatureError, match="cannot be compiled for the signature"):
        weft.compile(other, compiled.signature)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (scale_kernel, "received a kernel; compile the @weft.jit function that launches it"),
        (lambda a: a, "decorate it with @weft.jit"),
        (3, "received int 3"),
    ],
)
def test_only_host_functions_are_compiled(wrong, message):
    with pytest.raises(TypeError, match=r"takes a @weft\.jit function") as caught:
        weft.compile(wrong)
    assert message in str(caught.value)


def test_a_kernel_called_outside_says_how_to_launch_it():
    with pytest.raises(weft.UnavailableError, match="called outside a host function"):
        scale_kernel(*arrays())


def test_a_kernel_is_launched_without_a_host_function():
    a, b = arrays()
    scale_kernel[2, 64](a, b)
    np.testing.assert_array_equal(b, a * 2)
    a, b = arrays(1000)
    scale_kernel[(16, 1), (64, 1, 1)](a, b=b)
    np.testing.assert_array_equal(b, a * 2)


@pytest.mark.parametrize(
    "configuration",
    [4, (1,), (1, 2, 3, 4), (1, 2, "3"), ("1", 2), (1, 2.0), (1, (1, 2, 3, 4)), (True, 1)],
)
def test_a_wrong_launch_configuration_is_refused(configuration):
    with pytest.raises(weft.SignatureError):
        scale_kernel[configuration](*arrays())


# ---- decorators


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_threads": 0}, ValueError),
        ({"max_threads": 1025}, ValueError),
        ({"max_threads": 64.0}, TypeError),
        ({"max_threads": True}, TypeError),
        ({"min_blocks": 0}, ValueError),
        ({"max_registers": 15}, ValueError),
        ({"max_registers": 256}, ValueError),
        ({"cluster": (1, 2, 3, 4)}, TypeError),
        ({"cluster": (2, None)}, TypeError),
        ({"cluster": 0}, ValueError),
        ({"cluster": (16, 16, 16)}, ValueError),
    ],
)
def test_a_kernel_decorator_refuses_bounds_out_of_range(arguments, error):
    with pytest.raises(error):
        weft.kernel(**arguments)


@pytest.mark.parametrize("decorator", [weft.kernel, weft.jit])
@pytest.mark.parametrize("wrong", [3, int, "f"])
def test_a_decorator_takes_a_python_function(decorator, wrong):
    with pytest.raises(TypeError, match="takes a Python function"):
        decorator(wrong)


@pytest.mark.parametrize("decorator", [weft.kernel, weft.jit])
def test_a_decorated_function_is_not_decorated_again(decorator):
    with pytest.raises(TypeError, match="already decorated"):
        decorator(scale)


def test_decorated_functions_keep_name_and_documentation():
    @weft.jit
    def documented(a: F32):
        """Do nothing."""
        scale_kernel(a, a).launch(grid=1, block=1)

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "Do nothing."
    assert repr(scale_kernel) == "<weft kernel scale_kernel>"


def test_a_compiled_function_is_described_as_its_host_function():
    @weft.jit
    def documented(a: F32, times: weft.i32 = 3, *, c: weft.Constexpr = 7, value: weft.f32 = 2.5):
        """Do nothing."""
        scale_kernel(a, a).launch(grid=times + c, block=1)

    fn = weft.compile(documented)
    for function in (fn, fn.to(0)):
        assert (function.__doc__, function.__module__) == ("Do nothing.", __name__)
        signature = inspect.signature(function)
        assert str(signature) == "(a: Tensor[f32, (n,)], times: i32 = 3, *, value: f32 = 2.5)"
        assert signature.parameters["value"].default == 2.5


def test_kernels_and_host_functions_are_pickled_by_name():
    for function in (scale, scale_kernel):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.copy(function) is function
        assert copy.deepcopy([function])[0] is function


# ---- where it runs


def test_gpu_arch_compiles_for_cuda_without_a_device():
    function = weft.compile[weft.GPUArch("sm_80")](scale, *fakes())
    assert ".target sm_80" in function.ptx
    assert function.cubin[:4] == b"\x7fELF"
    assert ("add_one" not in function.sass and "FMUL" in function.sass) or "FADD" in function.sass


def test_the_default_architecture_is_sm_90a():
    assert ".target sm_90a" in weft.compile(scale, *fakes(), options="--target cuda").ptx


def test_options_of_the_decorator_are_defaults():
    @weft.jit(options="--target cuda --gpu-arch sm_75")
    def host(a: F32):
        scale_kernel(a, a).launch(grid=1, block=1)

    assert ".target sm_75" in weft.compile(host, fakes()[0]).ptx
    assert ".target sm_80" in weft.compile(host, fakes()[0], options="--gpu-arch sm_80").ptx


@pytest.mark.parametrize(
    "options", ["--gpu-arch sm_80", "--target cuda --gpu-arch sm_80", weft.GPUArch("sm_80")]
)
def test_examples_are_types_for_a_target_that_the_options_name(options):
    function = weft.compile(scale, *arrays(), options=options)
    assert ".target sm_80" in function.ptx
    assert function.signature == weft.compile(scale, *fakes(), options=options).signature
    with pytest.raises(ValueError, match="argument #0 'a': device is cpu, expected cuda"):
        function(*arrays())


def test_examples_in_containers_are_types_too():
    @weft.jit
    def host(pair: tuple[weft.Tensor, weft.Tensor]):
        scale_kernel(*pair).launch(grid=1, block=1)

    assert ".target sm_80" in weft.compile(host, arrays(), options="--gpu-arch sm_80").ptx


@pytest.mark.parametrize("options", ["--gpu-arch sm_80", "--target cuda"])
def test_a_fake_that_says_its_device_contradicts_another_target(options):
    on_cpu = weft.fake_tensor(weft.f32, ("n",), device="cpu")
    with pytest.raises(weft.OptionError) as caught:
        weft.compile(scale, on_cpu, on_cpu, options=options)
    assert caught.value.code == "OPTION_CONFLICT"
    assert "argument 'a' is on the CPU" in str(caught.value)
    assert "fake_tensor" in caught.value.hint


def test_a_call_runs_where_its_tensors_are_or_is_refused():
    @weft.jit(options="--target cuda")
    def host(a: F32):
        scale_kernel(a, a).launch(grid=1, block=1)

    with pytest.raises(weft.OptionError) as caught:
        host(arrays()[0])
    assert "the target cuda, but argument 'a' is on the CPU" in str(caught.value)
    assert "without a target in the options" in caught.value.hint


GPU_DEFAULTS = "--gpu-arch sm_90 --ptxas-options=-v --keep-ptx"


def test_what_the_decorator_says_about_gpus_is_ignored_on_the_cpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @weft.jit(options=GPU_DEFAULTS)
    def host(a: F32, b: F32):
        scale_kernel(a, b).launch(grid=1, block=a.shape[0])

    a, b = arrays()
    host(a, b)
    np.testing.assert_array_equal(b, a * 2)
    for options in ("", "--target cpu"):
        function = weft.compile(host, a, b, options=options)
        assert function.ptx is None
        b[:] = 0
        function(a, b)
        np.testing.assert_array_equal(b, a * 2)
    weft.compile(host, *fakes(), options="--target cpu")(a, b)
    # Where no tensor says where, it means what it says.
    assert ".target sm_90" in weft.compile(host, *fakes()).ptx
    assert (tmp_path / "weft-dump" / "host.ptx").exists()
    for said_again in ("--ptxas-options=-v", "--keep-ptx"):
        with pytest.raises(weft.OptionError) as caught:
            weft.compile(host, a, b, options=f"--target cpu {said_again}")
        assert caught.value.code == "OPTION_CONFLICT"


def test_an_unknown_target_lists_the_backends():
    with pytest.raises(weft.OptionError, match="there are: cpu, cuda"):
        weft.compile(scale, *fakes(), options="--target tpu")


def test_a_cuda_function_refuses_cpu_tensors():
    function = weft.compile(scale, *fakes(), options="--gpu-arch sm_90a")
    with pytest.raises(ValueError, match="argument #0 'a': device is cpu, expected cuda"):
        function(*arrays())


# ---- looking inside


def test_inspection_needs_no_option(compiled):
    assert "simt.kernel @scale_kernel" in compiled.ir_module
    assert "ffi.func" in compiled.ir_module
    assert "define i32 @weft.kernel.scale_kernel" in compiled.llvm_ir
    assert "__tvm_ffi_scale" in compiled.host_llvm_ir
    assert compiled.ptx is None and compiled.cubin is None and compiled.sass is None
    assert list(compiled.kernels) == ["scale_kernel"]
    assert compiled.executor.name == "library"
    assert compiled.engine.lookup("__tvm_ffi_scale") > 0


def test_the_printed_module_parses_again_in_both_forms(compiled):
    pretty = Parser(make_context(), compiled.ir_module).parse_module()
    generic = Parser(make_context(), compiled.ir_module.generic()).parse_module()
    pretty.verify()
    assert str(pretty) == str(generic) == compiled.ir_module


def test_inspection_shows_the_compiled_globals(monkeypatch):
    function = weft.compile(scale, *arrays())
    monkeypatch.setitem(globals(), "factor", 123.0)
    assert "1.230000e+02" not in function.ir_module
    assert "2.000000e+00" in function.ir_module


def test_looking_up_an_unknown_symbol_lists_what_there_is(compiled):
    with pytest.raises(KeyError, match="__tvm_ffi_scale"):
        compiled.engine.lookup("nothing")


def test_kept_texts_are_small(compiled):
    kept = sum(len(zlib.compress(t.encode())) for t in (compiled.ir_module, compiled.llvm_ir))
    assert kept < 20_000


# ---- hooks


def test_a_hook_sees_and_may_change_the_module():
    seen = []

    def hook(module):
        (kernel,) = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
        kernel.attributes["mine.mark"] = StringAttr("here")
        seen.append(kernel.sym_name.data)

    function = weft.compile(scale, *arrays(), post_compile_hooks=[hook, hook])
    assert seen == ["scale_kernel"] * 2
    assert 'mine.mark = "here"' in function.ir_module


def test_the_kept_text_is_the_one_that_the_module_has():
    texts: list[str] = []

    def look(module):
        module.attributes["mine.text"] = StringAttr('of\n"two" lines')
        texts.append(str(module))

    function = weft.compile(scale, *arrays(), post_compile_hooks=[look])
    assert texts == [function.ir_module]


def test_a_hook_that_breaks_the_module_is_named():
    def breaking(module):
        (kernel,) = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
        kernel.body.block.insert_op_before(ReturnOp(), kernel.body.block.first_op)

    with pytest.raises(
        weft.CompileError, match="the post-compile hook breaking left an invalid module"
    ):
        weft.compile(scale, *arrays(), post_compile_hooks=[breaking])


def test_a_hook_is_callable():
    with pytest.raises(TypeError, match="a post-compile hook must be callable, received 3"):
        weft.compile(scale, *arrays(), post_compile_hooks=[3])


def test_an_exception_of_a_hook_reaches_the_caller():
    def raising(module):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        weft.compile(scale, *arrays(), post_compile_hooks=[raising])


# ---- options at work


def test_time_prints_each_stage(capfd):
    weft.compile(scale, *arrays(), options="--time")
    printed = capfd.readouterr()
    assert printed.out == ""
    for stage in ("signature", "trace", "attach_ffi_wrapper", "object", "load host code"):
        assert stage in printed.err


def test_nothing_is_printed_unless_asked(capfd):
    weft.compile(scale, *arrays())
    assert capfd.readouterr() == ("", "")


def test_dump_dir_holds_every_stage(tmp_path):
    weft.compile(scale, *fakes(), options=f"--gpu-arch sm_90a --dump-dir {tmp_path}")
    names = {path.name for path in tmp_path.iterdir()}
    texts = {"scale.mlir", "scale.ll", "scale.host.ll", "scale.ptx"}
    assert {*texts, "scale.cubin", "scale.o"} <= names
    assert "EXIT" in (tmp_path / "scale.sass").read_text()


def test_keep_sass_writes_it_and_a_dump_directory_does_without(tmp_path, monkeypatch):
    from weft.backends.cuda import toolchain

    cuda = f"--gpu-arch sm_90a --dump-dir {tmp_path}"
    weft.compile(scale, *fakes(), options=f"{cuda} --keep-sass")
    assert [path.name for path in tmp_path.iterdir()] == ["scale.sass"]
    monkeypatch.setattr(toolchain, "find_nvdisasm", lambda: None)
    weft.compile(scale, *fakes(), options=cuda)
    with pytest.raises(weft.ToolchainError, match="nvdisasm, which shows SASS, is not installed"):
        weft.compile(scale, *fakes(), options=f"{cuda} --keep-sass")


@pytest.mark.parametrize(
    "option", ["--keep-ptx", "--keep-cubin", "--keep-sass", "--ptxas-options=-v"]
)
def test_an_option_of_another_target_is_refused(option, tmp_path):
    with pytest.raises(weft.OptionError) as caught:
        weft.compile(scale, *arrays(), options=f"--dump-dir {tmp_path} {option}")
    assert caught.value.code == "OPTION_CONFLICT"
    assert option.partition("=")[0] in caught.value.message and "cpu" in caught.value.message


def test_ptx_needs_no_assembler_that_knows_the_architecture(tmp_path):
    options = f"--gpu-arch sm_70 --dump-dir {tmp_path}"
    function = weft.compile(scale, *fakes(), options=options)
    assert ".target sm_70" in function.ptx
    assert (tmp_path / "scale.ptx").read_text() == function.ptx
    assert "makes no code for sm_70" in str(function.remarks[0])
    for asked in ("cubin", "sass"):
        with pytest.raises(weft.ToolchainError, match="makes no code for sm_70"):
            getattr(function, asked)
    with pytest.raises(weft.ToolchainError, match="makes no code for sm_70"):
        weft.compile(scale, *fakes(), options=f"{options} --keep-cubin")


@pytest.mark.parametrize("level", range(4))
def test_every_opt_level_gives_the_same_results(level):
    a, b = arrays()
    weft.compile(scale, a, b, options=weft.OptLevel(level))(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_verify_and_line_info_change_no_result():
    a, b = arrays()
    weft.compile[weft.VerifyIR, weft.GenerateLineInfo](scale, a, b)(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_the_executor_is_logged_with_the_reason(caplog):
    with caplog.at_level(logging.INFO, "weft"):
        function = weft.compile(scale, *arrays(), options="--enable-tvm-ffi")
    assert function.executor.name == "tvm-ffi"
    assert "scale: executor tvm-ffi, because of --enable-tvm-ffi" in caplog.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--enable-tvm-ffi", "tvm-ffi, because of --enable-tvm-ffi"),
        ("", "library, because of the default"),
    ],
)
def test_a_cached_functions_executor_is_logged(options, told, caplog, tmp_path):
    with weft.config.override(cache_dir=str(tmp_path), no_cache=False):
        first = weft.compile(scale, *arrays(), options=options)
        hits = weft.cache.stats().hits
        with caplog.at_level(logging.INFO, "weft"):
            found = weft.compile(scale, *arrays(), options=options)
    assert found.executor.name == first.executor.name
    assert weft.cache.stats().hits == hits + 1
    [line] = [entry.getMessage() for entry in caplog.records if "executor" in entry.getMessage()]
    assert line.startswith(f"scale: executor {told}")
    assert line.endswith("; found in the cache")


# ---- lifetimes


def test_code_lives_as_long_as_anything_made_of_it():
    function = weft.compile(scale, *arrays())
    foreign = function.as_tvm_ffi()
    assert isinstance(foreign, tvm_ffi.Function)
    del function
    gc.collect()
    a, b = arrays()
    foreign(a, b)
    np.testing.assert_array_equal(b, a * 2)


@pytest.mark.parametrize(
    ("device", "error"), [(-1, ValueError), ("0", ValueError), (True, TypeError), (1.0, TypeError)]
)
def test_to_takes_what_names_a_device(compiled, device, error):
    with pytest.raises(error):
        compiled.to(device)


def test_to_binds_without_compiling(compiled, compilations):
    bound = compiled.to(0)
    assert bound.device == 0 and compiled.device is None
    assert compilations == []
    a, b = arrays()
    bound(a, b)
    np.testing.assert_array_equal(b, a * 2)


# ---- errors


def frames_of(error):
    """Files of weft's compiler that an exception's traceback goes through."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return [name for name in frames if "/weft/frontend/" in name]


@weft.kernel
def wrong_kernel(a: weft.Tensor):
    a[0] = undefined_name


@weft.jit
def wrong(a: weft.Tensor):
    wrong_kernel(a).launch(grid=1, block=1)


@pytest.mark.parametrize("run", [wrong, lambda a: weft.compile(wrong, a)])
def test_a_users_error_shows_no_compiler_frames(run):
    with pytest.raises(weft.NameResolutionError) as caught:
        run(np.zeros(1, np.float32))
    assert frames_of(caught.value) == []


def test_the_compilers_frames_are_shown_when_asked_for():
    with override(full_tracebacks=True), pytest.raises(weft.NameResolutionError) as caught:
        weft.compile(wrong, np.zeros(1, np.float32))
    assert frames_of(caught.value) != []


def test_clusters_are_refused_for_architectures_that_have_none():
    @weft.kernel
    def kernel(a: weft.Tensor):
        a[0] = 1.0

    @weft.jit
    def host(a: weft.Tensor[weft.f32, ("n",)]):
        kernel(a).launch(grid=4, block=32, cluster=2)

    fake = weft.fake_tensor(weft.f32, (weft.sym("n"),))
    with pytest.raises(
        weft.UnavailableError, match=r"needs sm_90 or later.*compiled for sm_80"
    ) as caught:
        weft.compile(host, fake, options="--gpu-arch sm_80")
    assert "cluster=2" in str(caught.value)
    assert weft.compile(host, fake, options="--gpu-arch sm_90").kernels["kernel"].registers > 0

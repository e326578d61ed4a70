# SPDX-License-Identifier: Apache-2.0
"""What program.cpp runs: compiles a function and registers it with others."""

import weft
from weft import ffi


@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


vector = weft.fake_tensor(weft.f32, (weft.sym("n"),))
compiled = weft.compile(add_one, vector, vector, options="--target cpu")
ffi.register_global("program.add_one", compiled)
ffi.register_global("program.join", lambda parts, separator: separator.join(parts))
ffi.register_global("program.apply", lambda function, value: function(value))

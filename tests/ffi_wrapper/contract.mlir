// Every operation of the dialect, as `everything` in test_wrapper.py makes it.
  ffi.func "__tvm_ffi_f" of "f(a: Tensor[u8, (n, 4, None), strided, strides=(sym(s, divisibility=2), 4, None), alignment_bytes=16, device=cuda:1], b: Tensor[u8, (n, None, 4), inner, strides=(sym(s, divisibility=2), None, 1)], c: Tensor[f32, (n,)], alpha: bf16 = 2.0, nothing: None, stream: Stream, address: Pointer[f32], size: Shape[(n, 4)], count: sym(n), box: tuple[Tensor[f32, (n,)], i32])" on "cuda" {
    ffi.check_count 10
    %a = ffi.decode_tensor 0 "a"
    ffi.check %a "data"
    ffi.check %a "rank" is 3
    ffi.check %a "dtype" named "u8"
    ffi.check %a "device_type" is 2
    ffi.check_device %a is 1
    %device = ffi.bind_device %a
    ffi.check %a "alignment" is 16
    %n = ffi.bind_dim %a[0] "n" width 32 divisibility 1
    ffi.check_dim %a[1] is 4
    %0 = ffi.bind_dim %a[2] "" width 32 divisibility 1
    %s = ffi.bind_stride %a[0] "s" width 32 divisibility 2
    ffi.check_stride %a[1] is 4
    %a_tensor = ffi.as_tensor %a : !simt.tensor<i8, [?, 4, ?], strided, global, dims 32, offsets 64, align 16>
    %b = ffi.decode_tensor 1 "b"
    ffi.check %b "data"
    ffi.check %b "rank" is 3
    ffi.check %b "dtype" named "u8"
    ffi.check %b "device_type" is 2
    ffi.check_device %b equals %device
    ffi.check_dim %b[0] equals %n
    %1 = ffi.bind_dim %b[1] "" width 32 divisibility 1
    ffi.check_dim %b[2] is 4
    ffi.check_stride %b[0] equals %s
    ffi.check_stride %b[2] is 1
    %b_tensor = ffi.as_tensor %b : !simt.tensor<i8, [?, ?, 4], inner, global, dims 32, offsets 64, align 1>
    %c = ffi.decode_tensor 2 "c"
    ffi.check %c "data"
    ffi.check %c "rank" is 1
    ffi.check %c "dtype" named "f32"
    ffi.check %c "device_type" is 2
    ffi.check_device %c equals %device
    ffi.check %c "alignment" is 4
    ffi.check_dim %c[0] equals %n
    ffi.check_layout %c "contiguous" of "Tensor[f32, (n,)]"
    %c_tensor = ffi.as_tensor %c : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>
    %alpha = ffi.decode_scalar 3 "alpha" as "bf16" : bf16
    ffi.decode_none 4 "nothing"
    %stream = ffi.decode_stream 5 "stream"
    %address = ffi.decode_pointer 6 "address" of "Pointer[f32]" : !simt.tensor<f32, [*], contiguous, global, dims 64, offsets 64, align 4>
    %size = ffi.decode_shape 7 "size" rank 2
    ffi.check_dim %size[0] equals %n
    ffi.check_dim %size[1] is 4
    %2 = ffi.as_dim %size[0] : i32
    %count = ffi.decode_size 8 "count"
    ffi.check_dim %count[0] equals %n
    %3 = ffi.as_dim %count[0] : i32
    %box = ffi.decode_array 9 "box" size 2 of "tuple[Tensor[f32, (n,)], i32]"
    %4 = ffi.decode_tensor 0 "box[0]" in %box
    ffi.check %4 "data"
    ffi.check %4 "rank" is 1
    ffi.check %4 "dtype" named "f32"
    ffi.check %4 "device_type" is 2
    ffi.check_device %4 equals %device
    ffi.check %4 "alignment" is 4
    ffi.check_dim %4[0] equals %n
    ffi.check_layout %4 "contiguous" of "Tensor[f32, (n,)]"
    %5 = ffi.as_tensor %4 : !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>
    %6 = ffi.decode_scalar 1 "box[1]" in %box as "i32" : i32
    %own = ffi.environment_stream of %device
    %7 = ffi.device_guard @f(%a_tensor, %b_tensor, %c_tensor, %alpha, %stream, %address, %2, %3, %5, %6, %own : !simt.tensor<i8, [?, 4, ?], strided, global, dims 32, offsets 64, align 16>, !simt.tensor<i8, [?, ?, 4], inner, global, dims 32, offsets 64, align 1>, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>, bf16, !simt.stream, !simt.tensor<f32, [*], contiguous, global, dims 64, offsets 64, align 4>, i32, i32, !simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>, i32, !simt.stream) device %device stream %stream -> bf16
    ffi.return values %7 : bf16 tensors %c as [{value = 0 : i64, dtype = "bf16"}, {argument = "c"}, unit]
  }

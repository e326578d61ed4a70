// SPDX-License-Identifier: Apache-2.0
//
// A program in Rust that is linked with an exported library.
use std::os::raw::c_void;

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Any {
    type_index: i32,
    padding: u32,
    value: u64,
}

const NONE: i32 = 0;
const FLOAT: i32 = 3;
const TENSOR: i32 = 7;

extern "C" {
    fn __tvm_ffi_scale(handle: *mut c_void, arguments: *const Any, count: i32, result: *mut Any) -> i32;
}

fn view(data: &mut [f32], shape: &[i64; 1], strides: &[i64; 1]) -> Tensor {
    Tensor {
        data: data.as_mut_ptr().cast(),
        device_type: 1,
        device_id: 0,
        ndim: 1,
        code: 2,
        bits: 32,
        lanes: 1,
        shape: shape.as_ptr(),
        strides: strides.as_ptr(),
        byte_offset: 0,
    }
}

fn argument(tensor: &Tensor) -> Any {
    Any { type_index: TENSOR, padding: 0, value: tensor as *const Tensor as u64 }
}

fn main() {
    let mut a: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let mut b = vec![0f32; 1000];
    let (shape, strides) = ([1000i64], [1i64]);
    let (first, second) = (view(&mut a, &shape, &strides), view(&mut b, &shape, &strides));
    let factor = Any { type_index: FLOAT, padding: 0, value: 3f64.to_bits() };
    let arguments = [argument(&first), argument(&second), factor];
    let mut result = Any { type_index: NONE, padding: 0, value: 0 };
    let code = unsafe { __tvm_ffi_scale(std::ptr::null_mut(), arguments.as_ptr(), 3, &mut result) };
    println!("{} {} {}", code, b[1], b[999]);
}

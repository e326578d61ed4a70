// SPDX-License-Identifier: Apache-2.0
//
// The functions of libcudart that torch needs to make tensors on a device and to name streams. Put before the
// real library, so that the host side of a call can be measured without a GPU. Memory is addresses only.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static __thread int device;
static uintptr_t next_address = 0x700000000000ull;
static long long device_changes;

int cudaGetDeviceCount(int* count) { return *count = 2, 0; }
int cudaGetDevice(int* current) {
  __atomic_fetch_add(&device_changes, 1, __ATOMIC_RELAXED);
  return *current = device, 0;
}
int cudaSetDevice(int wanted) {
  __atomic_fetch_add(&device_changes, 1, __ATOMIC_RELAXED);
  return device = wanted, 0;
}
int cudaDriverGetVersion(int* version) { return *version = 13000, 0; }
int cudaRuntimeGetVersion(int* version) { return *version = 13000, 0; }
int cudaMalloc(void** address, size_t bytes) {
  *address = (void*)__atomic_fetch_add(&next_address, (bytes + 4095) & ~(size_t)4095, __ATOMIC_RELAXED);
  return 0;
}
int cudaFree(void* address) { return (void)address, 0; }
int cudaMemGetInfo(size_t* free, size_t* total) { return *free = *total = (size_t)80 << 30, 0; }
int cudaGetDeviceProperties(void* properties, int which) {
  (void)which;
  memset(properties, 0, 512);
  strcpy(properties, "stub");
  ((int*)properties)[90] = 9;  // major compute capability, so that torch does not warn
  return 0;
}
int cudaGetLastError(void) { return 0; }
int cudaPeekAtLastError(void) { return 0; }
int cudaStreamIsCapturing(void* stream, int* status) { return (void)stream, *status = 0, 0; }
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, 0; }
int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  (void)flags, (void)priority;
  return *stream = malloc(16), 0;
}
int cudaStreamQuery(void* stream) { return (void)stream, 0; }
int cudaStreamSynchronize(void* stream) { return (void)stream, 0; }
int cudaDeviceSynchronize(void) { return 0; }
int cudaThreadExchangeStreamCaptureMode(int* mode) { return (void)mode, 0; }

// How often the current device was asked for or set: a call should not.
long long cudaStubDeviceChanges(void) { return __atomic_load_n(&device_changes, __ATOMIC_RELAXED); }

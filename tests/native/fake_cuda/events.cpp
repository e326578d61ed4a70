// SPDX-License-Identifier: Apache-2.0
//
// Events: work is done when it is given, so an event's time is that of its recording.
#include <chrono>

#include "fake_state.h"

using namespace fake;
using namespace weft::cuda;

namespace {

constexpr CUresult CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905;

Event* as_event(CUevent handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  return state().events.count(event) != 0 ? event : nullptr;
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  FAKE_ENTER(cuEventCreate, "%u", flags);
  FAKE_CHECK(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  FAKE_CHECK(event != nullptr && (flags & ~CU_EVENT_DISABLE_TIMING) == 0, CUDA_ERROR_INVALID_VALUE);
  auto* made = new Event;
  made->has_time = flags == 0;
  made->context = current_context();
  state().events.insert(made);
  *event = reinterpret_cast<CUevent>(made);
  return call.done(0);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  enter_queue();
  FAKE_ENTER(cuEventRecord, "%p, %p", static_cast<void*>(event), static_cast<void*>(stream));
  CUresult result = 0;
  Context* context = context_of(stream, &result);
  FAKE_CHECK(context != nullptr, result);
  Event* recorded = as_event(event);
  FAKE_CHECK(recorded != nullptr && recorded->context == context, CUDA_ERROR_INVALID_HANDLE);
  const Stream* captured = as_stream(stream);
  recorded->is_captured = captured != nullptr && captured->capture != nullptr;
  recorded->nanoseconds = std::chrono::steady_clock::now().time_since_epoch().count();
  return call.done(0);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  FAKE_ENTER(cuStreamWaitEvent, "%p, %p", static_cast<void*>(stream), static_cast<void*>(event));
  CUresult result = 0;
  FAKE_CHECK(context_of(stream, &result) != nullptr, result);
  const Event* waited = as_event(event);
  FAKE_CHECK(waited != nullptr && waited->nanoseconds != 0 && flags == 0, CUDA_ERROR_INVALID_HANDLE);
  const Stream* captured = as_stream(stream);
  const bool captures = captured != nullptr && captured->capture != nullptr;
  return call.done(captures && !waited->is_captured ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : 0);
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent first, CUevent second) {
  FAKE_ENTER(cuEventElapsedTime, "%p, %p", static_cast<void*>(first), static_cast<void*>(second));
  const Event *begin = as_event(first), *end = as_event(second);
  FAKE_CHECK(begin != nullptr && end != nullptr, CUDA_ERROR_INVALID_HANDLE);
  FAKE_CHECK(begin->has_time && end->has_time && begin->context == end->context && begin->nanoseconds != 0 &&
                 end->nanoseconds != 0,
             CUDA_ERROR_INVALID_HANDLE);
  FAKE_CHECK(!begin->is_captured && !end->is_captured, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  *milliseconds = static_cast<float>(end->nanoseconds - begin->nanoseconds) / 1e6f;
  return call.done(0);
}

CUresult cuEventDestroy(CUevent event) {
  FAKE_ENTER(cuEventDestroy, "%p", static_cast<void*>(event));
  FAKE_CHECK(as_event(event) != nullptr, CUDA_ERROR_INVALID_HANDLE);
  state().events.erase(reinterpret_cast<Event*>(event));
  return call.done(0);
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
//
// weft._native.Event: a point in a stream's work whose device time can be read once it is reached.
#include "driver/devices/device_program.h"
#include "driver/library/driver_library.h"
#include "driver/python/python_error.h"
#include "driver/python/python_module.h"
#include "python/readers/stream.h"
#include "python/type_object.h"
#include "runtime/interpreter.h"

namespace weft {
namespace {

struct EventObject {
  PyObject_HEAD cuda::CUevent event;  // owned
  cuda::CUcontext context;            // where it was made
};

Type<EventObject> g_type;

EventObject* as_event(PyObject* object) { return reinterpret_cast<EventObject*>(object); }

// Both must be of one context: a stream's own, or the current one for the default streams.
bool enter_stream(cuda::CUstream stream, cuda::CUcontext* context, ContextGuard* guard, DriverError* error) {
  if (is_stream_handle(stream))
    return device_of_stream(stream, context, error) >= 0 && guard->enter(*context, error);
  const cuda::CUresult result = driver().cuCtxGetCurrent(context);
  return result == cuda::CUDA_SUCCESS || error->cuda(result, "cuCtxGetCurrent", "recording an event");
}

bool record(EventObject* self, cuda::CUstream stream, DriverError* error) {
  ContextGuard guard;
  if (!ensure_driver(error) || !enter_stream(stream, &self->context, &guard, error)) return false;
  cuda::CUresult result = driver().cuEventCreate(&self->event, 0);
  if (result != cuda::CUDA_SUCCESS) {
    self->event = nullptr;
    return error->cuda(result, "cuEventCreate", "making an event");
  }
  result = driver().cuEventRecord(self->event, stream);
  if (result != cuda::CUDA_SUCCESS) return error->cuda(result, "cuEventRecord", "recording an event");
  return guard.leave(error);
}

// record_event(stream): an Event after the work queued on the stream so far.
PyObject* record_event(PyObject*, PyObject* stream) {
  TVMFFIAny value{};
  if (encode_stream(stream, &value) != 0) return nullptr;
  PyObject* self = g_type.make();
  if (self == nullptr) return nullptr;
  DriverError error;
  bool done;
  {
    const WithoutGil released;
    done = record(as_event(self), static_cast<cuda::CUstream>(value.v_ptr), &error);
  }
  if (done) return self;
  Py_DECREF(self);
  return set_python_error(error);
}

// event.nanoseconds_until(later): both must have been reached.
PyObject* nanoseconds_until(PyObject* self, PyObject* later) {
  if (!PyObject_TypeCheck(later, g_type.get())) {
    return PyErr_Format(PyExc_TypeError, "later is a %s, expected an Event", Py_TYPE(later)->tp_name);
  }
  DriverError error;
  ContextGuard guard;
  if (!ensure_driver(&error) || !guard.enter(as_event(self)->context, &error)) return set_python_error(error);
  float milliseconds = 0;
  const cuda::CUresult result =
      driver().cuEventElapsedTime(&milliseconds, as_event(self)->event, as_event(later)->event);
  if (result != cuda::CUDA_SUCCESS) {
    error.cuda(result, "cuEventElapsedTime", "reading the time between two events");
    return set_python_error(error);
  }
  if (!guard.leave(&error)) return set_python_error(error);
  return PyFloat_FromDouble(static_cast<double>(milliseconds) * 1e6);
}

void release(PyObject* self) {
  // In a forked child it belongs to the parent.
  if (as_event(self)->event != nullptr && driver_is_ready()) destroy_event(as_event(self)->event);
}

PyMethodDef kMethods[] = {
    {"nanoseconds_until", nanoseconds_until, METH_O,
     "nanoseconds_until(later: Event) -> float\n--\n\nDevice time; both must have been reached."},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef kFunctions[] = {
    {"record_event", record_event, METH_O,
     "record_event(stream: object) -> Event\n--\n\nAn event after the work queued on the stream so far."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void destroy_event(cuda::CUevent event) {
  const cuda::CUresult result = driver().cuEventDestroy(event);
  if (result == cuda::CUDA_SUCCESS || result == cuda::CUDA_ERROR_DEINITIALIZED ||
      result == cuda::CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return;
  fprintf(stderr, "weft: destroying an event: cuEventDestroy returned %s (%d)\n", result_name(result).c_str(),
          result);
}

int add_event(PyObject* module) {
  if (g_type.add(module, "weft._native.Event",
                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                 {{Py_tp_doc, "A point in a stream's work, with its device time."},
                  {Py_tp_dealloc, Type<EventObject>::dealloc<release>},
                  {Py_tp_methods, kMethods}}) != 0)
    return -1;
  return PyModule_AddFunctions(module, kFunctions);
}

}  // namespace weft

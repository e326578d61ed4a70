// SPDX-License-Identifier: Apache-2.0
//
// weft._native.LinkedObject: an object's bytes in, its symbols' addresses out.
#include <utility>

#include "module.h"
#include "python/type_object.h"
#include "runtime/linker/linked_object.h"

namespace weft {
namespace {

struct PyLinkedObject {
  PyObject_HEAD LinkedObject* linked;  // owned; NULL once closed
  PyObject* addresses;                 // dict of str to int
};

Type<PyLinkedObject> g_type;

PyLinkedObject* as_linked(PyObject* object) { return reinterpret_cast<PyLinkedObject*>(object); }

void refuse(const std::string& error) {
  PyErr_Format(PyExc_ValueError, "the object cannot be linked: %s", error.c_str());
}

bool add_address(PyObject* addresses, const LinkedObject& linked, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return false;
  void* found = linked.find(text);
  if (found == nullptr) {
    refuse(std::string("it does not define the symbol '") + text + "'");
    return false;
  }
  Reference address(PyLong_FromVoidPtr(found));
  return address && PyDict_SetItem(addresses, name, address.get()) == 0;
}

// Addresses of the wanted symbols; NULL with an exception.
PyObject* find_all(const LinkedObject& linked, PyObject* symbols) {
  Reference items(PySequence_Fast(symbols, "symbols must be a sequence of str"));
  Reference addresses(items ? PyDict_New() : nullptr);
  if (!addresses) return nullptr;
  for (Py_ssize_t index = 0; index < PySequence_Fast_GET_SIZE(items.get()); ++index) {
    if (!add_address(addresses.get(), linked, PySequence_Fast_GET_ITEM(items.get(), index))) return nullptr;
  }
  return addresses.release();
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"data", "symbols", "is_reported", nullptr};
  Py_buffer data;
  PyObject* symbols = nullptr;
  int is_reported = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*O|p:LinkedObject", const_cast<char**>(kNames),
                                   &data, &symbols, &is_reported)) {
    return nullptr;
  }
  std::string error;
  auto linked = LinkedObject::make(static_cast<const char*>(data.buf), static_cast<size_t>(data.len),
                                   is_reported != 0, &error);
  PyBuffer_Release(&data);
  if (linked == nullptr) {
    refuse(error);
    return nullptr;
  }
  Reference addresses(find_all(*linked, symbols));
  PyObject* self = addresses ? type->tp_alloc(type, 0) : nullptr;
  if (self == nullptr) return nullptr;
  as_linked(self)->linked = linked.release();
  as_linked(self)->addresses = addresses.release();
  return self;
}

void release(PyObject* self) {
  delete as_linked(self)->linked;
  Py_XDECREF(as_linked(self)->addresses);
}

PyObject* close(PyObject* self, PyObject*) {
  delete std::exchange(as_linked(self)->linked, nullptr);
  PyDict_Clear(as_linked(self)->addresses);
  Py_RETURN_NONE;
}

PyObject* get_addresses(PyObject* self, void*) { return Py_NewRef(as_linked(self)->addresses); }

PyMethodDef kMethods[] = {
    {"close", close, METH_NOARGS, "close()\n--\n\nUnloads the code now. No call may be running or follow."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kAttributes[] = {
    {"addresses", get_addresses, nullptr, "Symbol → address; empty once closed.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

constexpr char kDoc[] =
    "LinkedObject(data: bytes, symbols: Sequence[str], is_reported: bool = False)\n--\n\n"
    "A relocatable object linked into this process, unloaded with its last reference. `is_reported`: it is "
    "registered with gdb.";

}  // namespace

int add_linker(PyObject* module) {
  if (g_type.add(module, "weft._native.LinkedObject", Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                 {{Py_tp_doc, kDoc},
                  {Py_tp_new, create},
                  {Py_tp_dealloc, Type<PyLinkedObject>::dealloc<release>},
                  {Py_tp_methods, kMethods},
                  {Py_tp_getset, kAttributes}}) != 0)
    return -1;
  return PyModule_AddIntConstant(module, "HOST_MACHINE", host_machine());
}

}  // namespace weft

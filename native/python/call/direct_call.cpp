// SPDX-License-Identifier: Apache-2.0
//
// The table of direct calls, and the call. Its key is that of `Specializations`, in which compile-time
// constants are bytes too: a value whose equality Python decides has none, and its calls stay in Python.
#include "python/call/direct_call.h"

#include <structmember.h>

#include <new>
#include <utility>

#include "module.h"
#include "python/call/call.h"
#include "python/call/guards.h"
#include "python/call/key.h"
#include "python/type_object.h"

namespace weft {
namespace {

constexpr Py_ssize_t kMostParameters = 32;  // functions with more are called by Python

Type<StagedFunction> g_staged;
Type<CallTable> g_table;

StagedFunction* as_staged(PyObject* object) { return reinterpret_cast<StagedFunction*>(object); }
CallTable* as_table(PyObject* object) { return reinterpret_cast<CallTable*>(object); }

// The class whose instances are called here, while its `__call__` is the one that it was made with.
struct {
  PyTypeObject* type = nullptr;  // owned, as what follows: for the life of the process
  PyObject* name = nullptr;
  PyObject* call = nullptr;
  unsigned version = 0;
} g_called;

WEFT_COLD bool confirm_class(PyTypeObject* type) {
  if (type != g_called.type || _PyType_Lookup(type, g_called.name) != g_called.call) return false;
  g_called.version = type->tp_version_tag;
  return true;
}

bool is_called_as_made(PyTypeObject* type) {
  const bool same = type == g_called.type && type->tp_version_tag == g_called.version;
  return WEFT_LIKELY(same && g_called.version != 0) || confirm_class(type);
}

// Arguments in the order of the parameters: borrowed from the call, and defaults, which this owns.
class Bound {
 public:
  explicit Bound(Py_ssize_t count) {
    for (Py_ssize_t index = 0; index < count; ++index) items_[index] = nullptr;
  }
  ~Bound() {
    for (Py_ssize_t index = 0; index < owned_count_; ++index) drop(owned_[index]);
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  PyObject*& operator[](Py_ssize_t index) { return items_[index]; }
  // Takes over a reference.
  void own(Py_ssize_t index, PyObject* object) {
    items_[index] = object;
    if (object != nullptr) owned_[owned_count_++] = object;
  }
  PyObject* const* data() const { return items_; }

 private:
  PyObject* items_[kMostParameters];
  PyObject* owned_[kMostParameters];
  Py_ssize_t owned_count_ = 0;
};

// The parameter that a keyword names; -1 if there is none, or it is given otherwise.
Py_ssize_t index_of_keyword(const CallTable* table, PyObject* keyword) {
  PyObject* const* names = &PyTuple_GET_ITEM(table->names, 0);
  for (Py_ssize_t index = table->positional_only; index < table->count; ++index) {
    if (names[index] == keyword) return index;
  }
  for (Py_ssize_t index = table->positional_only; index < table->count; ++index) {
    if (PyUnicode_Compare(names[index], keyword) == 0) return index;
  }
  return -1;
}

// A parameter's default: a new reference, or nullptr without an exception.
PyObject* default_of(const CallTable* table, const PyFunctionObject* function, Py_ssize_t index) {
  if (index >= table->positional) {
    PyObject* named = function->func_kwdefaults;
    if (named == nullptr || !PyDict_Check(named)) return nullptr;
    PyObject* found = PyDict_GetItemWithError(named, PyTuple_GET_ITEM(table->names, index));
    if (found == nullptr) PyErr_Clear();
    return Py_XNewRef(found);
  }
  PyObject* defaults = function->func_defaults;
  if (defaults == nullptr) return nullptr;
  const Py_ssize_t from_end = index - table->positional + PyTuple_GET_SIZE(defaults);
  return from_end < 0 ? nullptr : Py_NewRef(PyTuple_GET_ITEM(defaults, from_end));
}

// Whether the arguments fit; if not, Python words the error.
bool bind(const CallTable* table, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords,
          Bound& bound) {
  if (positional > table->positional) return false;
  for (Py_ssize_t index = 0; index < positional; ++index) bound[index] = arguments[index];
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t key = 0; key < named; ++key) {
    const Py_ssize_t index = index_of_keyword(table, PyTuple_GET_ITEM(keywords, key));
    if (index < 0 || bound[index] != nullptr) return false;
    bound[index] = arguments[positional + key];
  }
  const auto* function = reinterpret_cast<PyFunctionObject*>(table->function);
  for (Py_ssize_t index = positional; index < table->count; ++index) {
    if (bound[index] == nullptr) bound.own(index, default_of(table, function, index));
    if (bound[index] == nullptr) return false;
  }
  return true;
}

// Whether equal means the same object, whatever it holds: its class leaves equality and hash to `object`.
bool is_compared_by_identity(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type->tp_hash == PyBaseObject_Type.tp_hash &&
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
         _PyType_Lookup(type, g_names.__dataclass_params__) == nullptr;
}

// A compile-time constant with its value: whether it has bytes that differ from those of any other constant.
// `depth` of tuples may follow.
bool add_constant(PyObject* object, Key& key, int depth = 8) {
  if (WEFT_LIKELY(PyLong_CheckExact(object))) {
    key.add('i');
    if (WEFT_LIKELY(is_small_int(object))) {
      key.add_value(small_int_value(object));
      return true;
    }
    int overflow = 0;
    key.add_value(static_cast<int64_t>(PyLong_AsLongLongAndOverflow(object, &overflow)));
    return overflow == 0;
  }
  if (PyTuple_CheckExact(object)) {
    key.add('t');
    key.add_value(PyTuple_GET_SIZE(object));
    bool is_known = depth > 0;
    for (Py_ssize_t index = 0; is_known && index < PyTuple_GET_SIZE(object); ++index) {
      is_known = add_constant(PyTuple_GET_ITEM(object, index), key, depth - 1);
    }
    return is_known;
  }
  if (object == Py_None || PyBool_Check(object)) {
    key.add(object == Py_None ? 'n' : object == Py_True ? '1' : '0');
    return true;
  }
  if (PyFloat_CheckExact(object)) {
    key.add('f');
    key.add_value(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (PyUnicode_CheckExact(object)) {
    Py_ssize_t size;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) {
      PyErr_Clear();
      return false;
    }
    key.add('s');
    key.add_value(size);
    key.add_bytes(text, static_cast<size_t>(size));
    return true;
  }
  key.add('o');
  key.add_value(object);
  return is_compared_by_identity(object);
}

bool is_constant(const CallTable* table, Py_ssize_t index) { return ((table->constants >> index) & 1) != 0; }

// The key of a call: 1, 0 if it has none, or -1 with an exception.
int make_key(const CallTable* table, PyObject* const* arguments, Scratch& scratch, Key& key) {
  for (Py_ssize_t index = 0; index < table->count; ++index) {
    if (WEFT_UNLIKELY(is_constant(table, index))) {
      if (!add_constant(arguments[index], key)) return 0;
    } else if (WEFT_UNLIKELY(add_argument(arguments[index], scratch, key) != 0)) {
      return -1;
    }
  }
  return key.has_constants() ? 0 : 1;
}

uint64_t hash_of(const char* bytes, size_t size) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
  uint64_t hash = size;
  for (; size != 0;) {
    uint64_t word = 0;
    const size_t part = size < sizeof(word) ? size : sizeof(word);
    std::memcpy(&word, bytes, part);
    hash = (hash ^ word) * kOdd;
    hash ^= hash >> 29;
    bytes += part;
    size -= part;
  }
  return hash;
}

bool has_key(const KnownCall& call, const Key& key) {
  return call.key.size() == key.size() && std::memcmp(call.key.data(), key.data(), key.size()) == 0;
}

KnownCall* find_known(CallTable* table, const Key& key) {
  if (WEFT_LIKELY(table->last != nullptr && has_key(*table->last, key))) return table->last;
  auto found = table->known->find(hash_of(key.data(), key.size()));
  if (found == table->known->end() || !has_key(found->second, key)) return nullptr;
  table->last = &found->second;
  return table->last;
}

void drop_call(const KnownCall& call) {
  Py_DECREF(call.compiled);
  Py_XDECREF(call.guards);
  Py_DECREF(call.constants);
}

void forget_all(CallTable* table) {
  if (table->known == nullptr) return;
  table->last = nullptr;
  const auto known = std::move(*table->known);  // dropping them may run any code
  table->known->clear();
  for (const auto& [hash, call] : known) drop_call(call);
}

// Whether a configuration is overridden in the calling context: calls then have functions of their own.
bool is_overridden(const CallTable* table) {
  PyObject* value = nullptr;
  if (WEFT_UNLIKELY(PyContextVar_Get(table->overrides, nullptr, &value) != 0)) PyErr_Clear();
  if (WEFT_LIKELY(value == nullptr)) return false;
  const int has_any = PyObject_IsTrue(value);
  Py_DECREF(value);
  if (has_any < 0) PyErr_Clear();
  return has_any != 0;
}

// What `__call__` does with an error on its way to the user.
WEFT_COLD void leave_the_users_frames() {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Reference leave(imported_attribute("weft.tracebacks", "leave_the_users_frames"));
  Reference left(leave ? PyObject_CallOneArg(leave.get(), value) : nullptr);
  if (!left) PyErr_Clear();
  Py_XDECREF(traceback);
  PyErr_Restore(type, value, PyException_GetTraceback(value));
}

// After guards that do not hold: whether what they looked at ended the call, as an interrupt does. The
// compilation meets any other exception again.
WEFT_COLD bool is_interrupted(PyObject** result) {
  if (PyErr_Occurred() != nullptr && !PyErr_ExceptionMatches(PyExc_Exception)) {
    *result = nullptr;
    return true;
  }
  PyErr_Clear();
  return false;
}

// Calls with the arguments that are not compile-time constants.
PyObject* call_compiled(const CallTable* table, Function* function, PyObject* const* arguments) {
  if (WEFT_LIKELY(table->constants == 0)) return call_in_order(function, arguments, table->count);
  PyObject* passed[kMostParameters];
  Py_ssize_t count = 0;
  for (Py_ssize_t index = 0; index < table->count; ++index) {
    if (!is_constant(table, index)) passed[count++] = arguments[index];
  }
  return call_in_order(function, passed, count);
}

// The call with all arguments in the order of the parameters; as `call_known`.
bool call_bound(CallTable* table, PyObject* const* arguments, PyObject** result) {
  Reference compiled;
  {
    Key key;
    Scratch scratch;
    const int is_made = make_key(table, arguments, scratch, key);
    if (WEFT_UNLIKELY(is_made < 0)) {
      // Python words it, from the same arguments. An exception of code that ran meanwhile stays.
      const bool is_wording = PyErr_ExceptionMatches(PyExc_TypeError) ||
                              PyErr_ExceptionMatches(PyExc_ValueError) ||
                              PyErr_ExceptionMatches(PyExc_RecursionError);
      *result = nullptr;
      if (!is_wording) leave_the_users_frames();
      if (is_wording) PyErr_Clear();
      return !is_wording;
    }
    const KnownCall* known = is_made == 0 || table->known == nullptr ? nullptr : find_known(table, key);
    if (WEFT_UNLIKELY(known == nullptr)) return false;
    compiled.reset(Py_NewRef(known->compiled));
    if (known->guards != nullptr) {
      Reference guards(Py_NewRef(known->guards));
      const int current = are_guards_current(reinterpret_cast<Guards*>(guards.get()));
      if (WEFT_UNLIKELY(current != 1)) return is_interrupted(result);
    }
  }
  auto* function = reinterpret_cast<Function*>(compiled.get());
  if (WEFT_UNLIKELY(function->vectorcall != call_function)) return false;  // its first call is timed
  *result = call_compiled(table, function, arguments);
  if (WEFT_UNLIKELY(*result == nullptr)) leave_the_users_frames();
  return true;
}

// The class's own way, in Python.
PyObject* call_in_python(PyObject* self, PyObject* const* arguments, Py_ssize_t positional,
                         PyObject* keywords) {
  Reference given(PyTuple_New(positional));
  if (!given) return nullptr;
  for (Py_ssize_t index = 0; index < positional; ++index) {
    PyTuple_SET_ITEM(given.get(), index, Py_NewRef(arguments[index]));
  }
  Reference named;
  const Py_ssize_t count = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  if (count != 0) named.reset(PyDict_New());
  if (count != 0 && !named) return nullptr;
  for (Py_ssize_t index = 0; index < count; ++index) {
    PyObject* name = PyTuple_GET_ITEM(keywords, index);
    if (PyDict_SetItem(named.get(), name, arguments[positional + index]) != 0) return nullptr;
  }
  if (Py_EnterRecursiveCall(" while calling a Python object")) return nullptr;
  PyObject* result = Py_TYPE(self)->tp_call(self, given.get(), named.get());
  Py_LeaveRecursiveCall();
  return result;
}

PyObject* call_staged(PyObject* self, PyObject* const* arguments, size_t count_and_flags,
                      PyObject* keywords) {
  const Py_ssize_t positional = PyVectorcall_NARGS(count_and_flags);
  PyObject* result = nullptr;
  StagedFunction* staged = as_staged(self);
  if (WEFT_LIKELY(call_known(staged, arguments, positional, keywords, &result))) return result;
  PyObject* stream = stream_of_call(staged, arguments, positional, keywords);
  if (stream != nullptr && stream != Py_None &&
      call_generated(staged, kOnStream, arguments, positional, keywords, &result)) {
    return result;
  }
  return call_in_python(self, arguments, positional, keywords);
}

PyObject* make_staged(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* made = type->tp_alloc(type, 0);
  if (made != nullptr) as_staged(made)->vectorcall = call_staged;
  return made;
}

int traverse_staged(PyObject* self, visitproc visit, void* arg) {
  StagedFunction* staged = as_staged(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(staged->function);
  Py_VISIT(staged->table);
  for (const GeneratedHost& host : staged->hosts) {
    Py_VISIT(host.host);
    Py_VISIT(host.names);
    Py_VISIT(host.guards);
    Py_VISIT(host.bare);
    for (const SizesOfOne& one : host.last) {
      Py_VISIT(one.given);
      Py_VISIT(one.sizes);
    }
  }
  return 0;
}

int clear_staged(PyObject* self) {
  Py_CLEAR(as_staged(self)->function);
  Py_CLEAR(as_staged(self)->table);
  for (GeneratedHost& host : as_staged(self)->hosts) {
    for (SizesOfOne& one : host.last) {
      Py_CLEAR(one.given);
      Py_CLEAR(one.sizes);
    }
    Py_CLEAR(host.host);
    Py_CLEAR(host.names);
    Py_CLEAR(host.guards);
    Py_CLEAR(host.bare);
  }
  return 0;
}

void release_staged(PyObject* self) { clear_staged(self); }

PyObject* get_table(PyObject* self, void*) {
  PyObject* table = as_staged(self)->table;
  return Py_NewRef(table == nullptr ? Py_None : table);
}

int set_table(PyObject* self, PyObject* value, void*) {
  const bool is_table = value != nullptr && PyObject_TypeCheck(value, g_table.get());
  if (!is_table && value != Py_None) {
    return refuse(PyExc_TypeError, "expected a CallTable or None, received %s",
                  value == nullptr ? "nothing" : Py_TYPE(value)->tp_name);
  }
  Py_XSETREF(as_staged(self)->table, is_table ? Py_NewRef(value) : nullptr);
  return 0;
}

PyObject* call_natively(PyObject*, PyObject* type) {
  auto* called = reinterpret_cast<PyTypeObject*>(type);
  if (!PyType_Check(type) || !PyType_IsSubtype(called, g_staged.get()) || called->tp_call == nullptr ||
      called->tp_call == PyVectorcall_Call) {
    refuse(PyExc_TypeError, "expected a subclass of StagedFunction with a __call__ in Python");
    return nullptr;
  }
  if (g_called.name == nullptr) g_called.name = PyUnicode_InternFromString("__call__");
  if (g_called.name == nullptr) return nullptr;
  Py_XSETREF(g_called.call, Py_XNewRef(_PyType_Lookup(called, g_called.name)));
  Py_INCREF(called);
  Py_XSETREF(g_called.type, called);
  g_called.version = called->tp_version_tag;
  called->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  return Py_NewRef(type);
}

int initialize_table(PyObject* self, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"function", "overrides", nullptr};
  PyObject *function, *overrides;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO!:CallTable", const_cast<char**>(kNames),
                                   &function, &PyContextVar_Type, &overrides)) {
    return -1;
  }
  CallTable* table = as_table(self);
  if (!PyFunction_Check(function)) return 0;  // calls of other callables stay in Python
  PyObject* code = PyFunction_GET_CODE(function);
  const auto* parameters = reinterpret_cast<PyCodeObject*>(code);
  Reference names(PyObject_GetAttrString(code, "co_varnames"));
  if (!names) return -1;
  if (table->known == nullptr) table->known = new (std::nothrow) std::unordered_map<uint64_t, KnownCall>;
  if (table->known == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  forget_all(table);
  Py_XSETREF(table->function, Py_NewRef(function));
  Py_XSETREF(table->code, Py_NewRef(code));
  Py_XSETREF(table->names, names.release());
  Py_XSETREF(table->overrides, Py_NewRef(overrides));
  table->positional = parameters->co_argcount;
  table->positional_only = parameters->co_posonlyargcount;
  table->count = table->positional + parameters->co_kwonlyargcount;
  table->constants = 0;
  return 0;
}

PyObject* make_table(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

// Bits of the positions in a tuple; those that the table has forgotten otherwise.
int set_constants(CallTable* table, PyObject* positions) {
  uint64_t bits = 0;
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(positions); ++index) {
    const Py_ssize_t position = PyNumber_AsSsize_t(PyTuple_GET_ITEM(positions, index), PyExc_IndexError);
    if (position == -1 && PyErr_Occurred()) return -1;
    if (position < 0 || position >= table->count)
      return refuse(PyExc_IndexError, "remember: no such parameter");
    bits |= uint64_t{1} << position;
  }
  if (bits != table->constants) forget_all(table);
  table->constants = bits;
  return 0;
}

PyObject* kept_constants(const CallTable* table, PyObject* arguments) {
  Reference kept(PyList_New(0));
  for (Py_ssize_t index = 0; kept && index < table->count; ++index) {
    if (!is_constant(table, index)) continue;
    if (PyList_Append(kept.get(), PyTuple_GET_ITEM(arguments, index)) != 0) return nullptr;
  }
  return kept ? PyList_AsTuple(kept.get()) : nullptr;
}

PyObject* remember(PyObject* self, PyObject* given) {
  CallTable* table = as_table(self);
  PyObject *arguments, *positions, *compiled, *guards;
  if (!PyArg_ParseTuple(given, "O!O!OO:remember", &PyTuple_Type, &arguments, &PyTuple_Type, &positions,
                        &compiled, &guards)) {
    return nullptr;
  }
  if (table->known == nullptr || table->count > kMostParameters ||
      PyTuple_GET_SIZE(arguments) != table->count || Py_TYPE(compiled) != function_type() ||
      (guards != Py_None && Py_TYPE(guards) != guards_type())) {
    Py_RETURN_NONE;
  }
  if (set_constants(table, positions) != 0) return nullptr;
  const CallPlan* plan = reinterpret_cast<Function*>(compiled)->plan;
  if (plan == nullptr || plan->count != table->count - PyTuple_GET_SIZE(positions)) Py_RETURN_NONE;
  Key key;
  Scratch scratch;
  const int is_made = make_key(table, &PyTuple_GET_ITEM(arguments, 0), scratch, key);
  if (is_made < 0) return nullptr;
  if (is_made == 0) Py_RETURN_NONE;
  Reference constants(kept_constants(table, arguments));
  if (!constants) return nullptr;
  KnownCall call = {std::string(key.data(), key.size()), Py_NewRef(compiled),
                    guards == Py_None ? nullptr : Py_NewRef(guards), constants.release()};
  auto [place, is_new] = table->known->try_emplace(hash_of(key.data(), key.size()));
  std::swap(place->second, call);
  table->last = &place->second;
  if (!is_new) drop_call(call);
  Py_RETURN_NONE;
}

int traverse_table(PyObject* self, visitproc visit, void* arg) {
  CallTable* table = as_table(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(table->function);
  Py_VISIT(table->code);
  Py_VISIT(table->names);
  Py_VISIT(table->overrides);
  if (table->known == nullptr) return 0;
  for (const auto& [hash, call] : *table->known) {
    Py_VISIT(call.compiled);
    Py_VISIT(call.guards);
    Py_VISIT(call.constants);
  }
  return 0;
}

int clear_table(PyObject* self) {
  CallTable* table = as_table(self);
  forget_all(table);
  Py_CLEAR(table->function);
  Py_CLEAR(table->code);
  Py_CLEAR(table->names);
  Py_CLEAR(table->overrides);
  return 0;
}

void release_table(PyObject* self) {
  clear_table(self);
  delete as_table(self)->known;
}

// set_generated_host(function, kind, host, names, guards, bare)
PyObject* set_generated_host(PyObject*, PyObject* given) {
  PyObject *function, *host, *names, *guards, *bare;
  int kind;
  if (!PyArg_ParseTuple(given, "O!iO!O!O!O:set_generated_host", g_staged.get(), &function, &kind,
                        g_staged.get(), &host, &PyTuple_Type, &names, guards_type(), &guards, &bare)) {
    return nullptr;
  }
  if (kind < 0 || kind >= kLaunchKinds) {
    refuse(PyExc_ValueError, "set_generated_host: there is no launch of kind %d", kind);
    return nullptr;
  }
  GeneratedHost& generated = as_staged(function)->hosts[kind];
  Py_XSETREF(generated.host, Py_NewRef(host));
  Py_XSETREF(generated.names, Py_NewRef(names));
  Py_XSETREF(generated.guards, Py_NewRef(guards));
  Py_XSETREF(generated.bare, Py_NewRef(bare));
  Py_RETURN_NONE;
}

// Moves an error in the generated host function to the launching line.
WEFT_COLD void place_error(PyObject* bare) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Reference place(imported_attribute("weft.compiler.bare_launch", "place_error"));
  Reference placed(place ? PyObject_CallFunctionObjArgs(place.get(), value, bare, nullptr) : nullptr);
  if (!placed) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

PyMemberDef kStagedMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(StagedFunction, vectorcall), READONLY, nullptr},
    {"function", T_OBJECT_EX, offsetof(StagedFunction, function), 0, "The user's function."},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef kStagedProperties[] = {
    {"_specializations", get_table, set_table, "The functions of direct calls, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef kTableMethods[] = {
    {"remember", remember, METH_VARARGS,
     "remember(arguments: tuple, constants: tuple[int, ...], compiled: Function, guards: Guards | "
     "None)\n--\n\n"
     "Calls with arguments like these, all of them in the order of the parameters, run `compiled` from now "
     "on,\n"
     "while the guards are current. `constants` are positions of arguments whose values count."},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef kMethods[] = {
    {"call_natively", call_natively, METH_O,
     "call_natively(type) -> type\n--\n\n"
     "Lets calls of instances of a subclass of StagedFunction begin here, and go to its `__call__` if they "
     "are "
     "unknown."},
    {"set_generated_host", set_generated_host, METH_VARARGS,
     "set_generated_host(function, kind: int, host, names: tuple, guards: Guards, bare)\n--\n\n"
     "Launches of that kind (0 on a grid, 2 over iterations, 1 more on a stream) call `host` from now on, "
     "with the\n"
     "launch's arguments by these names, while the guards are current. `bare` is for errors."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool call_known(StagedFunction* staged, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords,
                PyObject** result) {
  CallTable* table = as_table(staged->table);
  if (WEFT_UNLIKELY(table == nullptr || staged->function != table->function)) return false;
  if (WEFT_UNLIKELY(PyFunction_GET_CODE(table->function) != table->code || table->count > kMostParameters))
    return false;
  if (WEFT_UNLIKELY(!is_called_as_made(Py_TYPE(staged)) || is_overridden(table))) return false;
  Reference kept(Py_NewRef(&table->base));  // the call may replace it
  const bool is_named = keywords != nullptr && PyTuple_GET_SIZE(keywords) != 0;
  if (WEFT_LIKELY(!is_named && positional == table->count && positional == table->positional)) {
    return call_bound(table, arguments, result);
  }
  Bound bound(table->count);
  return bind(table, arguments, positional, keywords, bound) && call_bound(table, bound.data(), result);
}

bool call_generated(StagedFunction* staged, int kind, PyObject* const* arguments, Py_ssize_t positional,
                    PyObject* keywords, PyObject** result) {
  const GeneratedHost& generated = staged->hosts[kind];
  if (WEFT_UNLIKELY(generated.host == nullptr)) return false;
  Reference host(Py_NewRef(generated.host));
  Reference guards(Py_NewRef(generated.guards));
  Reference bare(Py_NewRef(generated.bare));
  const int current = are_guards_current(reinterpret_cast<Guards*>(guards.get()));
  if (WEFT_UNLIKELY(current != 1)) return is_interrupted(result);
  if (!call_known(as_staged(host.get()), arguments, positional, keywords, result)) return false;
  if (WEFT_UNLIKELY(*result == nullptr)) place_error(bare.get());
  return true;
}

PyObject* stream_of_call(const StagedFunction* staged, PyObject* const* arguments, Py_ssize_t positional,
                         PyObject* keywords) {
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t index = 0; index < named; ++index) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(keywords, index), g_names.stream) != 0) continue;
    // The parameters are the first of the code's names.
    if (staged->function == nullptr || !PyFunction_Check(staged->function)) return nullptr;
    PyObject* code = PyFunction_GET_CODE(staged->function);
    const auto* parameters = reinterpret_cast<PyCodeObject*>(code);
    Reference names(PyObject_GetAttrString(code, "co_varnames"));
    if (!names) PyErr_Clear();
    const Py_ssize_t count = names ? parameters->co_argcount + parameters->co_kwonlyargcount : 0;
    for (Py_ssize_t own = 0; own < count; ++own) {
      if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), own), g_names.stream) == 0) return nullptr;
    }
    return names ? arguments[positional + index] : nullptr;
  }
  return nullptr;
}

PyTypeObject* staged_function_type() { return g_staged.get(); }

int add_direct_calls(PyObject* module) {
  constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
  const int failed = g_staged.add(module, "weft._native.StagedFunction", kFlags,
                                  {{Py_tp_new, make_staged},
                                   {Py_tp_dealloc, Type<StagedFunction>::dealloc<release_staged>},
                                   {Py_tp_traverse, traverse_staged},
                                   {Py_tp_clear, clear_staged},
                                   {Py_tp_members, kStagedMembers},
                                   {Py_tp_getset, kStagedProperties}});
  if (failed != 0) return -1;
  const int table_failed = g_table.add(module, "weft._native.CallTable", kFlags,
                                       {{Py_tp_new, make_table},
                                        {Py_tp_init, initialize_table},
                                        {Py_tp_dealloc, Type<CallTable>::dealloc<release_table>},
                                        {Py_tp_traverse, traverse_table},
                                        {Py_tp_clear, clear_table},
                                        {Py_tp_methods, kTableMethods}});
  return table_failed != 0 ? -1 : PyModule_AddFunctions(module, kMethods);
}

}  // namespace weft

// SPDX-License-Identifier: Apache-2.0
//
// Dictionaries of globals, modules and objects that guards read.
#include "python/call/dict_version.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft {

#if PY_VERSION_HEX < 0x030C0000

const uint64_t* watch_dict(PyObject* dict, PyObject*) {
  return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
}

void unwatch_dict(PyObject*) {}

#else

namespace {

struct Watched {
  uint64_t version = 0;
  size_t users = 0;
  // Owned references to interned names, so that none is another's address.
  std::vector<PyObject*> names;
};

// Made at first use and never destroyed: dictionaries change while the interpreter ends.
std::unordered_map<PyObject*, Watched>& all_watched() {
  static auto* watched = new std::unordered_map<PyObject*, Watched>;
  return *watched;
}

int g_watcher = -1;

// Called before each change of a watched dictionary; runs no Python code. Other names of a module may change
// all the time: only a name that is read counts, and any name that cannot be compared by address.
int note_change(PyDict_WatchEvent event, PyObject* dict, PyObject* name, PyObject*) {
  auto found = all_watched().find(dict);
  if (found == all_watched().end()) return 0;
  Watched& watched = found->second;
  const bool is_item =
      event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED || event == PyDict_EVENT_DELETED;
  const bool is_known =
      is_item && name != nullptr && PyUnicode_CheckExact(name) && PyUnicode_CHECK_INTERNED(name);
  const auto& names = watched.names;
  if (is_known && std::find(names.begin(), names.end(), name) == names.end()) return 0;
  ++watched.version;
  return 0;
}

}  // namespace

const uint64_t* watch_dict(PyObject* dict, PyObject* name) {
  // Without an address of its own, every change of the name would have to count.
  if (!PyUnicode_CheckExact(name) || !PyUnicode_CHECK_INTERNED(name)) return nullptr;
  if (g_watcher < 0) g_watcher = PyDict_AddWatcher(note_change);
  if (g_watcher < 0 || PyDict_Watch(g_watcher, dict) != 0) {
    PyErr_Clear();  // all of CPython's eight watchers are in use: the caller looks at the item itself
    return nullptr;
  }
  Watched& watched = all_watched()[dict];  // whose address stays, whatever else is inserted
  ++watched.users;
  auto& names = watched.names;
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(Py_NewRef(name));
  return &watched.version;
}

void unwatch_dict(PyObject* dict) {
  auto found = all_watched().find(dict);
  if (found == all_watched().end() || --found->second.users != 0) return;
  const std::vector<PyObject*> names = std::move(found->second.names);
  all_watched().erase(found);
  if (PyDict_Unwatch(g_watcher, dict) != 0) PyErr_Clear();
  for (PyObject* name : names) Py_DECREF(name);
}

#endif

}  // namespace weft

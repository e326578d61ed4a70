// SPDX-License-Identifier: Apache-2.0
//
// Keywords and defaults. Errors are worded as for a Python function, followed by the signature.
#include <initializer_list>

#include "python/call/call_plan.h"

namespace weft {
namespace {

WEFT_COLD int raise_binding(const CallPlan& plan, PyObject* text) {
  if (text == nullptr) return -1;
  PyErr_Format(PyExc_TypeError, "%U() %U; signature: %U", plan.name, text, plan.signature);
  Py_DECREF(text);
  return -1;
}

// "'a'", "'a' and 'b'", "'a', 'b', and 'c'"
PyObject* join_names(PyObject* names) {
  Py_ssize_t count = PyList_GET_SIZE(names);
  Reference text(PyUnicode_FromFormat("%R", PyList_GET_ITEM(names, 0)));
  for (Py_ssize_t index = 1; text && index < count; ++index) {
    const char* separator = index + 1 < count ? ", " : count == 2 ? " and " : ", and ";
    text.reset(PyUnicode_FromFormat("%U%s%R", text.get(), separator, PyList_GET_ITEM(names, index)));
  }
  return text.release();
}

WEFT_COLD int raise_missing(const CallPlan& plan, PyObject* const* bound) {
  for (bool keyword_only : {false, true}) {
    Py_ssize_t first = keyword_only ? plan.positional_count : 0;
    Py_ssize_t last = keyword_only ? plan.count : plan.positional_count;
    Reference missing(PyList_New(0));
    if (!missing) return -1;
    for (Py_ssize_t index = first; index < last; ++index) {
      if (bound[index] != nullptr || plan.defaults[index] != nullptr) continue;
      if (PyList_Append(missing.get(), PyTuple_GET_ITEM(plan.parameters, index)) != 0) return -1;
    }
    Py_ssize_t count = PyList_GET_SIZE(missing.get());
    if (count == 0) continue;
    Reference names(join_names(missing.get()));
    if (!names) return -1;
    return raise_binding(plan, PyUnicode_FromFormat("missing %zd required %s argument%s: %U", count,
                                                    keyword_only ? "keyword-only" : "positional",
                                                    count == 1 ? "" : "s", names.get()));
  }
  return 0;
}

// `keywords_given` counts the keyword-only arguments among the keywords, which Python mentions.
WEFT_COLD int raise_too_many(const CallPlan& plan, Py_ssize_t given, PyObject* keywords) {
  Py_ssize_t required = 0;
  for (Py_ssize_t index = 0; index < plan.positional_count; ++index) {
    if (plan.defaults[index] == nullptr) ++required;
  }
  Py_ssize_t keyword_only = 0;
  for (Py_ssize_t key = 0; keywords != nullptr && key < PyTuple_GET_SIZE(keywords); ++key) {
    for (Py_ssize_t index = plan.positional_count; index < plan.count; ++index) {
      int equal =
          PyUnicode_Compare(PyTuple_GET_ITEM(plan.parameters, index), PyTuple_GET_ITEM(keywords, key));
      if (equal == 0) ++keyword_only;
    }
  }
  bool range = required != plan.positional_count;
  bool plural = range || plan.positional_count != 1;
  Reference takes(range ? PyUnicode_FromFormat("from %zd to %zd", required, plan.positional_count)
                        : PyUnicode_FromFormat("%zd", plan.positional_count));
  if (!takes) return -1;
  Reference extra(keyword_only == 0 ? PyUnicode_FromString("")
                                    : PyUnicode_FromFormat(
                                          " positional argument%s (and %zd keyword-only argument%s)",
                                          given == 1 ? "" : "s", keyword_only, keyword_only == 1 ? "" : "s"));
  if (!extra) return -1;
  return raise_binding(plan, PyUnicode_FromFormat("takes %U positional argument%s but %zd%U %s given",
                                                  takes.get(), plural ? "s" : "", given, extra.get(),
                                                  given == 1 && keyword_only == 0 ? "was" : "were"));
}

// The parameter that a keyword names, -1 if there is none, -2 if it is positional-only.
Py_ssize_t find_parameter(const CallPlan& plan, PyObject* keyword) {
  PyObject* const* names = &PyTuple_GET_ITEM(plan.parameters, 0);
  for (Py_ssize_t index = plan.positional_only_count; index < plan.count; ++index) {
    if (names[index] == keyword) return index;
  }
  for (Py_ssize_t index = 0; index < plan.count; ++index) {
    if (PyUnicode_Compare(names[index], keyword) != 0) continue;
    return index < plan.positional_only_count ? -2 : index;
  }
  return -1;
}

WEFT_COLD int raise_positional_only(const CallPlan& plan, PyObject* keywords) {
  Reference names;
  for (Py_ssize_t index = 0; index < plan.positional_only_count; ++index) {
    for (Py_ssize_t key = 0; key < PyTuple_GET_SIZE(keywords); ++key) {
      PyObject* name = PyTuple_GET_ITEM(plan.parameters, index);
      if (PyUnicode_Compare(name, PyTuple_GET_ITEM(keywords, key)) != 0) continue;
      names.reset(names ? PyUnicode_FromFormat("%U, %U", names.get(), name) : Py_NewRef(name));
      if (!names) return -1;
    }
  }
  return raise_binding(
      plan, PyUnicode_FromFormat("got some positional-only arguments passed as keyword arguments: '%U'",
                                 names.get()));
}

}  // namespace

int bind_arguments(const CallPlan& plan, PyObject* const* arguments, Py_ssize_t positional,
                   PyObject* keywords, PyObject** bound) {
  if (WEFT_UNLIKELY(positional > plan.positional_count)) return raise_too_many(plan, positional, keywords);
  for (Py_ssize_t index = 0; index < positional; ++index) bound[index] = arguments[index];
  for (Py_ssize_t index = positional; index < plan.count; ++index) bound[index] = nullptr;
  Py_ssize_t keyword_count = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t key = 0; key < keyword_count; ++key) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, key);
    Py_ssize_t index = find_parameter(plan, keyword);
    if (WEFT_UNLIKELY(index == -2)) return raise_positional_only(plan, keywords);
    if (WEFT_UNLIKELY(index < 0)) {
      return raise_binding(plan, PyUnicode_FromFormat("got an unexpected keyword argument '%U'", keyword));
    }
    if (WEFT_UNLIKELY(bound[index] != nullptr)) {
      return raise_binding(plan, PyUnicode_FromFormat("got multiple values for argument '%U'", keyword));
    }
    bound[index] = arguments[positional + key];
  }
  for (Py_ssize_t index = positional; index < plan.count; ++index) {
    if (bound[index] != nullptr) continue;
    if (WEFT_UNLIKELY(plan.defaults[index] == nullptr)) return raise_missing(plan, bound);
    bound[index] = plan.defaults[index];
  }
  return 0;
}

}  // namespace weft

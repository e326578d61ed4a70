// SPDX-License-Identifier: Apache-2.0
//
// weft._native.Guards: whether many places hold the same objects still, by comparing few words.
#ifndef WEFT_PYTHON_GUARDS_H_
#define WEFT_PYTHON_GUARDS_H_

#include <vector>

#include "python/common.h"

namespace weft {

// A word of CPython's objects that differs once one of some places has changed.
struct GuardWord {
  const void* where;               // in an object that `places` or `kept` owns
  uint64_t expected;               // kNever if the word cannot tell: its places are looked at each time
  bool is_half;                    // 32 bits
  bool is_final;                   // after a change it tells nothing: how the places are found may be another
  std::vector<Py_ssize_t> places;  // indices
};

struct Guards {
  PyObject base;
  PyObject* places;  // tuple, owned, with the objects that the words are in; nullptr once the collector has
                     // cleared it
  PyObject* kept;    // list, owned: classes and dictionaries whose version is a word
  std::vector<GuardWord>* words;
  std::vector<Py_ssize_t>* looked_at;  // places that no word covers
  std::vector<PyObject*>* dicts;       // watched, once for each time; owned by `places` or `kept`
};

PyTypeObject* guards_type();

// 1, 0, or -1 with an exception.
int confirm_guards(Guards* guards);

inline uint64_t word_at(const GuardWord& word) {
  return word.is_half ? *static_cast<const uint32_t*>(word.where) : *static_cast<const uint64_t*>(word.where);
}

// Whether every place is the same: 1, 0, or -1 with an exception.
inline int are_guards_current(Guards* guards) {
  if (WEFT_UNLIKELY(guards->words == nullptr)) return 0;
  if (WEFT_UNLIKELY(!guards->looked_at->empty())) return confirm_guards(guards);
  for (const GuardWord& word : *guards->words) {
    if (WEFT_UNLIKELY(word_at(word) != word.expected)) return confirm_guards(guards);
  }
  return 1;
}

}  // namespace weft

#endif  // WEFT_PYTHON_GUARDS_H_

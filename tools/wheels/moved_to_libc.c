// SPDX-License-Identifier: Apache-2.0
//
// Functions that glibc 2.34 moved into libc, under the names and the version that every older glibc has. A program that
// is linked with a library of these asks for them as older programs do, and finds the real ones. Never loaded.
#define MOVED(name) \
  void name(void) {}

#ifdef LIBDL
MOVED(dlclose)
MOVED(dlerror)
MOVED(dlopen)
MOVED(dlsym)
#else
MOVED(pthread_create)
MOVED(pthread_once)
MOVED(pthread_sigmask)
#endif

// SPDX-License-Identifier: Apache-2.0
//
// The limits of launches, for Python.
#include "module.h"
#include "python/common.h"
#include "runtime/launch/launch_limits.h"

namespace weft {

// LAUNCH_LIMITS: blocks of a grid and threads of a block along each axis, threads of a block, bytes that they
// share, threads of a warp, blocks of a cluster.
int add_launch_limits(PyObject* module) {
  Reference limits(Py_BuildValue("((LLL)(LLL)LLiL)", kMostGrid[0], kMostGrid[1], kMostGrid[2], kMostBlock[0],
                                 kMostBlock[1], kMostBlock[2], kMostThreads, kMostShared, kWarpSize,
                                 kMostClusterBlocks));
  return limits ? PyModule_AddObjectRef(module, "LAUNCH_LIMITS", limits.get()) : -1;
}

}  // namespace weft

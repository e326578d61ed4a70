// SPDX-License-Identifier: Apache-2.0
//
// The process's one runtime table: the function of each row.
#include <weft/runtime_table.h>

#include "cpu/copies.h"
#include "cpu/launch.h"
#include "cpu/mbarrier.h"
#include "cpu/pool.h"
#include "cpu/race_detector.h"
#include "cpu/scheduler.h"
#include "cpu/thread_trace.h"
#include "driver/devices/device_guard.h"
#include "driver/launch/launch.h"
#include "driver/launch/make_tensor_map.h"
#include "runtime/array.h"
#include "runtime/environment_stream.h"
#include "runtime/failure.h"
#include "runtime/launch/call_scratch.h"
#include "runtime/launch/launch_memory.h"
#include "runtime/report.h"
#include "runtime/scalar.h"
#include "runtime/shape.h"

namespace {

// Each row is the function of that name in namespace weft.
const weft_runtime_table kTable = {WEFT_RUNTIME_TABLE_VERSION,
#define WEFT_ROW(name, result, parameters, llvm_type) weft::name,
                                   WEFT_RUNTIME_TABLE(WEFT_ROW)
#undef WEFT_ROW
};

}  // namespace

const weft_runtime_table* weft_get_runtime_table(void) { return &kTable; }

// SPDX-License-Identifier: Apache-2.0
//
// Graphs: capturing a stream, executables made of what was captured, replaying
// and updating them.
#include <algorithm>

#include "fake_state.h"

using namespace fake;
using namespace weft::cuda;

namespace {

constexpr CUresult CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910;

// What an update leaves as it was: the steps, and which kernel each one runs.
bool has_same_shape(const std::vector<Node>& one, const std::vector<Node>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](const Node& a, const Node& b) {
    if (a.kind != b.kind || a.function != b.function) return false;
    return a.kind == Node::kKernel || a.memory == b.memory;
  });
}

CUresult run_node(const Node& node) {
  if (node.kind == Node::kWork) node.work();
  if (node.kind != Node::kKernel) return 0;
  // Its code was unloaded while the graph still used it.
  if (state().functions.count(node.function) == 0) return CUDA_ERROR_INVALID_HANDLE;
  return run_kernel(node);
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream stream, int32_t mode) {
  FAKE_ENTER(cuStreamBeginCapture_v2, "%p, %d", static_cast<void*>(stream), mode);
  Stream* found = as_stream(stream);
  FAKE_CHECK(found != nullptr && found->capture == nullptr, CUDA_ERROR_INVALID_VALUE);
  found->capture = new Graph;
  return call.done(0);
}

CUresult cuStreamEndCapture(CUstream stream, Graph** graph) {
  FAKE_ENTER(cuStreamEndCapture, "%p", static_cast<void*>(stream));
  Stream* found = as_stream(stream);
  FAKE_CHECK(found != nullptr && found->capture != nullptr, CUDA_ERROR_INVALID_VALUE);
  *graph = found->capture;
  found->capture = nullptr;
  state().graphs.insert(*graph);
  return call.done(0);
}

CUresult cuGraphInstantiateWithFlags(GraphExecutable** executable, Graph* graph, unsigned long long flags) {
  FAKE_ENTER(cuGraphInstantiateWithFlags, "%p, %llu", static_cast<void*>(graph), flags);
  FAKE_CHECK(state().graphs.count(graph) != 0, CUDA_ERROR_INVALID_VALUE);
  *executable = new GraphExecutable{graph->nodes};
  state().executables.insert(*executable);
  return call.done(0);
}

CUresult cuGraphExecUpdate_v2(GraphExecutable* executable, Graph* graph, int32_t* info) {
  FAKE_ENTER(cuGraphExecUpdate_v2, "%p, %p", static_cast<void*>(executable), static_cast<void*>(graph));
  FAKE_CHECK(state().executables.count(executable) != 0 && state().graphs.count(graph) != 0,
             CUDA_ERROR_INVALID_VALUE);
  *info = has_same_shape(executable->nodes, graph->nodes) ? 0 : 1;
  FAKE_CHECK(*info == 0, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  executable->nodes = graph->nodes;
  return call.done(0);
}

CUresult cuGraphLaunch(GraphExecutable* executable, CUstream stream) {
  FAKE_ENTER(cuGraphLaunch, "%p, %p", static_cast<void*>(executable), static_cast<void*>(stream));
  CUresult result = 0;
  FAKE_CHECK(state().executables.count(executable) != 0, CUDA_ERROR_INVALID_VALUE);
  FAKE_CHECK(context_of(stream, &result) != nullptr, result);
  for (const Node& node : executable->nodes) {
    result = run_node(node);
    if (result != 0) return call.done(result);
  }
  return call.done(0);
}

CUresult cuGraphDestroy(Graph* graph) {
  FAKE_ENTER(cuGraphDestroy, "%p", static_cast<void*>(graph));
  FAKE_CHECK(state().graphs.erase(graph) != 0, CUDA_ERROR_INVALID_VALUE);
  delete graph;
  return call.done(0);
}

CUresult cuGraphExecDestroy(GraphExecutable* executable) {
  FAKE_ENTER(cuGraphExecDestroy, "%p", static_cast<void*>(executable));
  FAKE_CHECK(state().executables.erase(executable) != 0, CUDA_ERROR_INVALID_VALUE);
  delete executable;
  return call.done(0);
}

}  // extern "C"

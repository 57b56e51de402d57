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
// What the C library lacks: threads.
const env = new Proxy({}, {
    get: (_, name) => () => {
        throw new Error(`${name} was called, which is not there`);
    },
});
const { instance } = await WebAssembly.instantiate(readFileSync(file), { ...wasi.getImportObject(), env });
process.exitCode = wasi.start(instance);

// Whether two builds of the playground compute the same bits. Arguments: one.wasm other.wasm
import { readFileSync } from "node:fs";

const load = async (file) => (await WebAssembly.instantiate(readFileSync(file), {})).instance.exports;
const [one, other] = await Promise.all(process.argv.slice(2).map(load));

let compared = 0;
const calls = {
    cosine: (dim, base) => [0, 1, -7, 4096, 1_000_000].flatMap((p) => [0, 5, dim / 2 - 1].map((i) => [dim, base, p, i])),
    sine: (dim, base) => [0, 1, -7, 4096, 1_000_000].flatMap((p) => [0, 5, dim / 2 - 1].map((i) => [dim, base, p, i])),
    inverse_frequency: (dim, base) => [0, 5, dim / 2 - 1].map((i) => [dim, base, i]),
    score: (dim, base) => [0, 1, 2].flatMap((seed) => [[40, 24], [0, 0], [2048, 3]].map(([m, n]) => [dim, base, m, n, seed])),
    score_without: (dim) => [0, 1, 2].map((seed) => [dim, seed]),
};
for (const [name, of] of Object.entries(calls)) {
    for (const dim of [64, 128, 256]) {
        for (const base of [1e4, 5e5, 1e6]) {
            for (const given of of(dim, base)) {
                const [a, b] = [one[name](...given), other[name](...given)];
                if (!Object.is(a, b) || Number.isNaN(a)) {
                    console.error(`playground.wasm is stale: ${name}(${given}) is ${a} now, and was ${b}. UPDATE=1 renews it.`);
                    process.exit(1);
                }
                compared += 1;
            }
        }
    }
}
// The scores of all distances are those that are asked for one by one.
for (const backwards of [0, 1]) {
    const distances = one.fill_scores(128, 5e5, 2, backwards);
    if (distances < 2049) {
        console.error(`scores of ${distances} distances`);
        process.exit(1);
    }
    for (const distance of [0, 1, 31, 32, 777, 2048]) {
        const [m, n] = backwards ? [0, distance] : [distance, 0];
        const [all, alone] = [one.score_at(distance), one.score(128, 5e5, m, n, 2)];
        if (!Object.is(all, alone)) {
            console.error(`the score at distance ${distance} is ${all} among all, and ${alone} alone`);
            process.exit(1);
        }
        compared += 1;
    }
}
// What cannot be computed is NaN, and nothing else happens.
if (!Number.isNaN(one.score(3, 1e4, 0, 0, 0)) || !Number.isNaN(one.cosine(128, -1, 0, 0)) ||
    one.fill_scores(128, -1, 0, 0) !== 0 || !Number.isNaN(one.score_at(1 << 20))) {
    console.error("a base or a number of channels that rope-core refuses was accepted");
    process.exit(1);
}
console.log(`playground: ${compared} values equal`);

// The playground of the report. Everything that is rotated is rotated by rope-core; here it is only drawn.
"use strict";
(async () => {
    const PLANES = 12;
    const section = document.getElementById("playground");
    const form = section.querySelector("form");
    const svg = (name, attributes, parent) => {
        const element = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
        parent?.append(element);
        return element;
    };
    const text = (content, attributes, parent) => {
        svg("text", attributes, parent).textContent = content;
    };

    let rope;
    try {
        const encoded = document.getElementById("playground-wasm").textContent.trim();
        const bytes = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
        rope = (await WebAssembly.instantiate(bytes, {})).instance.exports;
    } catch {
        section.querySelector(".failed").hidden = false;
        section.dataset.state = "failed";
        return;
    }

    const value = (name) => Number(form.elements[name].value);
    const read = () => ({
        m: value("m"),
        n: value("n"),
        shift: value("shift"),
        base: value("base"),
        dim: value("dim"),
        seed: value("seed"),
    });

    // Pairs from the fastest to the slowest.
    const shownPairs = (dim) =>
        Array.from({ length: PLANES }, (_, i) => Math.round((i * (dim / 2 - 1)) / (PLANES - 1)));

    const hand = (position, pair, { base, dim }) => [
        rope.cosine(dim, base, position, pair),
        rope.sine(dim, base, position, pair),
    ];

    function drawPlanes(state) {
        const planes = section.querySelector(".planes");
        planes.replaceChildren();
        for (const pair of shownPairs(state.dim)) {
            const q = hand(state.m + state.shift, pair, state);
            const k = hand(state.n + state.shift, pair, state);
            const between = (Math.atan2(q[1] * k[0] - q[0] * k[1], q[0] * k[0] + q[1] * k[1]) * 180) / Math.PI;
            const period = (2 * Math.PI) / rope.inverse_frequency(state.dim, state.base, pair);
            const label = `pair ${pair}: ${between.toFixed(1)} degrees between q and k`;
            const figure = document.createElement("figure");
            const plane = svg("svg", { viewBox: "-1.2 -1.2 2.4 2.4", role: "img", "aria-label": label }, figure);
            svg("circle", { r: 1, class: "line", "stroke-width": 0.03 }, plane);
            for (const [[x, y], colour, width] of [[k, "var(--c1)", 0.12], [q, "var(--c0)", 0.06]]) {
                svg("line", { x2: x, y2: -y, style: `stroke:${colour};stroke-width:${width};stroke-linecap:round` }, plane);
            }
            const caption = document.createElement("figcaption");
            const turn = period < 1e4 ? period.toFixed(period < 100 ? 1 : 0) : period.toExponential(1);
            caption.innerHTML = `pair ${pair}<br><b>${between.toFixed(1)}°</b><br><span class="soft">turn: ${turn}</span>`;
            figure.append(caption);
            planes.append(figure);
        }
    }

    // The curve depends on base, channels and vectors only.
    let curve = { key: "" };
    function scores({ base, dim, seed }) {
        const key = [base, dim, seed].join();
        if (curve.key !== key) {
            const distances = Array.from({ length: 361 }, (_, i) => Math.round(2048 ** (i / 360)) - 1);
            const points = [...new Set(distances)].map((d) => [d, rope.score(dim, base, d, 0, seed)]);
            curve = { key, points, without: rope.score_without(dim, seed) };
        }
        return curve;
    }

    function drawScores(state) {
        const plot = section.querySelector(".scores");
        const { points, without } = scores(state);
        const here = rope.score(state.dim, state.base, state.m + state.shift, state.n + state.shift, state.seed);
        const values = [...points.map(([, score]) => score), without, here, 0];
        const [low, high] = [Math.min(...values), Math.max(...values)];
        const x = (distance) => 60 + (640 * Math.log2(distance + 1)) / 11;
        const y = (score) => 250 - (220 * (score - low)) / (high - low || 1);
        plot.replaceChildren(plot.querySelector("title"));
        for (let power = 0; power <= 11; power++) {
            const at = x(2 ** power - 1);
            svg("line", { class: "line", x1: at, x2: at, y1: 24, y2: 256 }, plot);
            text(`${2 ** power - 1}`, { class: "soft middle", x: at, y: 272 }, plot);
        }
        for (const score of [0, high, low]) {
            svg("line", { class: "line", x1: 60, x2: 700, y1: y(score), y2: y(score) }, plot);
            text(score.toFixed(2), { class: "soft end", x: 54, y: y(score) + 4 }, plot);
        }
        text("score q · k / channels", { class: "soft", x: 0, y: 12 }, plot);
        text("distance m − n", { class: "soft end", x: 700, y: 292 }, plot);
        const line = points.map(([distance, score]) => `${x(distance).toFixed(1)},${y(score).toFixed(1)}`).join(" ");
        svg("polyline", { points: line, style: "fill:none;stroke:var(--c0);stroke-width:2" }, plot);
        const flat = { x1: 60, x2: 700, y1: y(without), y2: y(without) };
        svg("line", { ...flat, style: "stroke:var(--c1);stroke-width:2;stroke-dasharray:6 4" }, plot);
        text("without RoPE", { x: 700, y: y(without) - 5, class: "end" }, plot);
        const distance = Math.abs(state.m - state.n);
        svg("circle", { cx: x(distance), cy: y(here), r: 6, style: "fill:var(--c2)" }, plot);
        section.querySelector(".score").textContent =
            `Score of q at ${state.m + state.shift} and k at ${state.n + state.shift}: ${here.toFixed(4)}; ` +
            `without RoPE ${without.toFixed(4)} at any distance.` +
            (state.m < state.n ? " (The curve has the query behind the key; here it is before it.)" : "");
    }

    function draw() {
        const state = read();
        for (const name of ["m", "n", "shift"]) {
            form.elements[`${name}-value`].value = state[name].toLocaleString("en");
        }
        drawPlanes(state);
        drawScores(state);
        section.dataset.state = "drawn";
    }
    let pending = 0;
    form.addEventListener("input", () => {
        cancelAnimationFrame(pending);
        pending = requestAnimationFrame(draw);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    draw();
})();

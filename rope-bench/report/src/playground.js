// The playground of the report. Everything that is rotated is rotated by rope-core; here it is only drawn.
"use strict";
(async () => {
    const PLANES = 12;
    const FARTHEST = 2048;
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
            const plane = svg("svg", { viewBox: "-1.5 -1.5 3 3", role: "img", "aria-label": label }, figure);
            svg("circle", { r: 1 }, plane);
            // The letters lie at different distances, and so beside each other when the hands lie on each other.
            for (const [name, [x, y], width, end, letter] of [["k", k, 0.13, 0.5, 0.76], ["q", q, 0.06, 1, 1.26]]) {
                const parent = svg("g", { class: `hand-${name}` }, plane);
                svg("line", { x2: end * x, y2: -end * y, "stroke-width": width }, parent);
                text(name, { x: letter * x, y: -letter * y, class: "letter" }, parent);
            }
            const turn = Number(period.toPrecision(3)).toLocaleString("en");
            const caption = document.createElement("figcaption");
            caption.innerHTML =
                `pair ${pair}<br><b>${between.toFixed(1)}°</b><br><span class="soft">${turn} positions</span>`;
            figure.append(caption);
            planes.append(figure);
        }
    }

    // The curve depends on base, channels, vectors, and on which of the two comes first. It has every distance: the
    // fastest plane takes six of them for a turn, so that leaving any out draws another curve.
    let curve = { key: "" };
    function scores({ base, dim, seed, m, n }) {
        const backwards = m < n;
        const key = [base, dim, seed, backwards].join();
        if (curve.key !== key) {
            rope.fill_scores(dim, base, seed, backwards);
            const points = Array.from({ length: FARTHEST + 1 }, (_, distance) => [distance, rope.score_at(distance)]);
            curve = { key, points, without: rope.score_without(dim, seed) };
        }
        return curve;
    }

    // 1, 2 or 5 times a power of ten from one number to the next, about `count` of them.
    function ticks(low, high, count) {
        const rough = (high - low) / count;
        const power = 10 ** Math.floor(Math.log10(rough));
        const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
        const digits = Math.max(0, -Math.floor(Math.log10(step)));
        const first = Math.ceil(low / step - 1e-9);
        return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => {
            const tick = (first + i) * step;
            return [tick, tick.toFixed(digits).replace("-", "−")];
        });
    }

    function drawScores(state) {
        const [LEFT, TOP, BOTTOM, HEIGHT] = [48, 26, 270, 312];
        const plot = section.querySelector(".scores svg");
        // In pixels of the page, so that type has the same size on every screen.
        const width = Math.max(300, plot.parentElement.clientWidth);
        const right = width - 12;
        plot.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
        const { points, without } = scores(state);
        const here = rope.score(state.dim, state.base, state.m + state.shift, state.n + state.shift, state.seed);
        const values = [...points.map(([, score]) => score), without, here, 0];
        const [low, high] = [Math.min(...values), Math.max(...values)];
        const x = (distance) => LEFT + ((right - LEFT) * Math.log2(distance + 1)) / Math.log2(FARTHEST + 1);
        const y = (score) => BOTTOM - ((BOTTOM - TOP) * (score - low)) / (high - low || 1);
        plot.replaceChildren(plot.querySelector("title"));
        const shown = width < 600 ? [0, 2, 10, 50, 200, 1000] : [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
        for (const distance of shown) {
            const at = x(distance);
            svg("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: BOTTOM }, plot);
            text(`${distance}`, { class: "soft middle", x: at, y: BOTTOM + 17 }, plot);
        }
        for (const [score, label] of ticks(low, high, 5)) {
            svg("line", { class: "grid", x1: LEFT, x2: right, y1: y(score), y2: y(score) }, plot);
            text(label, { class: "soft end", x: LEFT - 6, y: y(score) + 4 }, plot);
        }
        const order = state.m >= state.n ? "the query after the key" : "the query before the key";
        text("score: q · k / channels", { class: "soft", x: 0, y: 13 }, plot);
        text(`distance in positions, ${order}`, { class: "soft end", x: right, y: BOTTOM + 36 }, plot);
        const line = points.map(([distance, score]) => `${x(distance).toFixed(1)},${y(score).toFixed(1)}`).join(" ");
        svg("polyline", { points: line, class: "curve" }, plot);
        svg("line", { x1: LEFT, x2: right, y1: y(without), y2: y(without), class: "without" }, plot);
        text("without RoPE", { x: right, y: y(without) + (y(without) < TOP + 16 ? 17 : -6), class: "end" }, plot);
        svg("circle", { class: "here", cx: x(Math.abs(state.m - state.n)), cy: y(here), r: 6 }, plot);
        section.querySelector(".score").textContent =
            `Score of q at ${(state.m + state.shift).toLocaleString("en")} and k at ` +
            `${(state.n + state.shift).toLocaleString("en")}: ${here.toFixed(4)}, the disc below; ` +
            `without RoPE ${without.toFixed(4)} at any distance.`;
    }

    function draw() {
        const state = read();
        for (const name of ["m", "n", "shift"]) {
            const number = form.elements[`${name}-value`];
            if (number !== document.activeElement) number.value = state[name];
        }
        drawPlanes(state);
        drawScores(state);
        section.dataset.state = "drawn";
    }
    let pending = 0;
    const drawSoon = () => {
        cancelAnimationFrame(pending);
        pending = requestAnimationFrame(draw);
    };
    form.addEventListener("input", ({ target }) => {
        // A number field moves its slider, which keeps it within its limits.
        const slider = form.elements[target.name.replace(/-value$/, "")];
        if (slider !== target && target.value !== "") slider.value = target.value;
        drawSoon();
    });
    form.addEventListener("change", drawSoon);
    form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("resize", drawSoon);
    draw();
})();

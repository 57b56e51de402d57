//! The guide's table of verbs: which operand, plan and angles each verb takes, and the refusal of each other. The table
//! is made by calls. A refused call writes nothing, and a prepared call has the outcome of its verb.

use half::bf16;
use rope_core::cache::{
    Asymmetric, BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, CacheParts, CachePartsMut,
    ChannelCodes, GroupCodes, QuantFormat, QuantScale, ScalePlace,
};
use rope_core::gradient::PairGradients;
use rope_core::norm::{Norm, NormFormula};
use rope_core::stages::{Hadamard, Scale, StageOrder, Stages, Transpose};
use rope_core::{
    Angles, Direction, Error, Frequencies, FullRows, Output, Pairing, Rope, Rows, Scaling, Source,
    Target, Tensor, TensorMut,
};

const TOKENS: usize = 32;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64;
/// The last half of a head rotates.
const ROTARY: usize = 32;
const SHAPE: [usize; 4] = [1, TOKENS, HEADS, HEAD_DIM];
const HALF: [usize; 4] = [1, TOKENS, HEADS, HEAD_DIM - ROTARY];
const LEN: usize = TOKENS * HEADS * HEAD_DIM;

type Outcome = Result<(), Error>;

/// The verbs that not every plan and not all angles have.
const PASSES: [&str; 6] = [
    "`backward`",
    "`backward_into`",
    "`angle_gradients`",
    "`factor_gradients`",
    "`cos_sin_gradients`",
    "`channel_gradients`",
];

/// A row of the table: a verb, its operands, and the outcome with each plan; `None` does not compile.
struct Row {
    verb: &'static str,
    operands: Vec<&'static str>,
    outcomes: Vec<Option<Outcome>>,
}

/// A kind of cache.
struct CacheKind {
    name: &'static str,
    format: CacheFormat<'static>,
    /// Channels of the layout after those of a head, where scales lie.
    room: usize,
    /// The last token has no slot.
    skips: bool,
}

fn cache_kinds() -> [CacheKind; 8] {
    let after = ScalePlace::Inline;
    let computed = QuantScale::Computed {
        least: 1e-6,
        at: after(HEAD_DIM),
    };
    let zero_point = GroupCodes::U8(Asymmetric::ZeroPoint, HEAD_DIM);
    let zero_point = CacheFormat::by_group(zero_point, after(HEAD_DIM));
    let kind = |name, format, room| CacheKind {
        name,
        format,
        room,
        skips: false,
    };
    [
        kind("elements", CacheFormat::element::<bf16>(), 0),
        kind(
            "given scale",
            CacheFormat::quantized(QuantFormat::E4m3, QuantScale::Divide(1.0.into())),
            0,
        ),
        kind(
            "scale per head",
            CacheFormat::quantized(QuantFormat::E4m3, computed),
            4,
        ),
        kind("blocks", BlockFormat::Q8_0.into(), 0),
        kind(
            "scale per group",
            CacheFormat::by_group(GroupCodes::Nvfp4(1.0), after(HEAD_DIM / 2)),
            8,
        ),
        kind("zero point", zero_point, 8),
        kind(
            "scale by channel",
            CacheFormat::by_channel(ChannelCodes::Kivi2, TOKENS),
            0,
        ),
        CacheKind {
            skips: true,
            ..kind(
                "part of a group",
                CacheFormat::by_channel(ChannelCodes::Kivi2, TOKENS),
                0,
            )
        },
    ]
}

impl CacheKind {
    fn layout(&self) -> CacheLayout {
        layout(HEAD_DIM + self.room, 0..HEAD_DIM)
    }

    fn bytes(&self) -> usize {
        self.layout()
            .bytes(self.format)
            .expect("a format that fits")
    }

    fn slots(&self) -> Vec<i64> {
        let end = TOKENS as i64 - 1;
        (0..end)
            .chain([if self.skips { -1 } else { end }])
            .collect()
    }

    fn on<'m>(&self, memory: &'m mut [u8]) -> CacheMut<'m> {
        CacheMut::coded(memory, self.layout(), self.format).expect("a cache that fits")
    }
}

fn layout(width: usize, channels: core::ops::Range<usize>) -> CacheLayout {
    CacheLayout::hnd([1, HEADS, TOKENS, width])
        .and_then(|layout| layout.narrow_channels(channels))
        .expect("channels of a head")
}

/// Two parts: the channels that stay, and those that rotate.
fn parts() -> [(CacheLayout, CacheFormat<'static>); 2] {
    let part = |channels| (layout(HEAD_DIM, channels), CacheFormat::element::<bf16>());
    [
        part(0..HEAD_DIM - ROTARY),
        part(HEAD_DIM - ROTARY..HEAD_DIM),
    ]
}

/// Runs a call with painted memory, which a refused call leaves alone.
fn painted(bytes: usize, call: impl FnOnce(&mut [u8]) -> Outcome) -> Outcome {
    let before = vec![0x3c3c_3c3c_u32; bytes.div_ceil(4)];
    let mut memory = before.clone();
    let outcome = call(&mut bytemuck::cast_slice_mut(&mut memory)[..bytes]);
    assert!(
        outcome.is_ok() || memory == before,
        "{outcome:?} has written"
    );
    outcome
}

fn floats(len: usize, call: impl FnOnce(&mut [f32]) -> Outcome) -> Outcome {
    painted(4 * len, |memory| call(bytemuck::cast_slice_mut(memory)))
}

/// A call in place: a rotation, or stages alone.
fn in_place(
    plan: &Rope<impl Stages>,
    x: &mut impl Target,
    angles: Option<&impl Angles>,
) -> Outcome {
    let Some(angles) = angles else {
        return plan.apply(x);
    };
    let prepared = plan.prepare(x, angles).map(|_| ());
    let outcome = plan.rotate(x, angles);
    assert_eq!(prepared, outcome);
    outcome
}

/// A call into another operand.
fn into(
    plan: &Rope<impl Stages>,
    x: &impl Source,
    y: &mut impl Target,
    angles: Option<&impl Angles>,
) -> Outcome {
    let Some(angles) = angles else {
        return plan.apply_into(x, y);
    };
    let prepared = plan.prepare_into(x, y, angles).map(|_| ());
    let outcome = plan.rotate_into(x, y, angles);
    assert_eq!(prepared, outcome);
    outcome
}

/// The views of memory that calls write.
fn tensor(memory: &mut [f32]) -> TensorMut<'_, f32> {
    TensorMut::new(memory, SHAPE).expect("valid")
}

fn side_by_side(memory: &mut [f32]) -> [TensorMut<'_, f32>; 2] {
    let (one, two) = memory.split_at_mut(LEN / 2);
    [one, two].map(|half| TensorMut::new(half, HALF).expect("valid"))
}

fn slots_with_parts(memory: &mut [u8]) -> CachePartsMut<'_, 2> {
    CachePartsMut::new(memory, parts()).expect("parts that fit")
}

/// Calls a verb in place, from and into each operand; `names` are those of the three forms.
fn forms(
    calls: &mut Vec<(&'static str, &'static str, Outcome)>,
    names: [&'static str; 3],
    plan: &Rope<impl Stages>,
    angles: Option<&impl Angles>,
) {
    let ones = vec![1.0_f32; LEN];
    let x = &Tensor::new(&ones, SHAPE).expect("valid");
    let half = || Tensor::new(&ones[..LEN / 2], HALF).expect("valid");
    let mut note = |operand, outcomes: [Outcome; 3]| {
        for (name, outcome) in names.into_iter().zip(outcomes) {
            calls.push((name, operand, outcome));
        }
    };
    let from_tensor = || floats(LEN, |y| into(plan, x, &mut tensor(y), angles));
    note(
        "tensor",
        [
            floats(LEN, |y| in_place(plan, &mut tensor(y), angles)),
            from_tensor(),
            from_tensor(),
        ],
    );
    note(
        "tensors side by side",
        [
            floats(LEN, |y| in_place(plan, &mut side_by_side(y), angles)),
            floats(LEN, |y| {
                into(plan, &[half(), half()], &mut tensor(y), angles)
            }),
            floats(LEN, |y| into(plan, x, &mut side_by_side(y), angles)),
        ],
    );
    for kind in &cache_kinds() {
        let slots = &kind.slots();
        let memory = vec![0_u32; kind.bytes() / 4];
        let from = Cache::coded(bytemuck::cast_slice(&memory), kind.layout(), kind.format);
        let from = from.expect("a cache that fits");
        note(
            kind.name,
            [
                painted(kind.bytes(), |y| {
                    in_place(plan, &mut kind.on(y).slots(slots), angles)
                }),
                floats(LEN, |y| {
                    into(plan, &from.slots(slots), &mut tensor(y), angles)
                }),
                painted(kind.bytes(), |y| {
                    into(plan, x, &mut kind.on(y).slots(slots), angles)
                }),
            ],
        );
    }
    let memory = vec![0_u32; LEN / 2];
    let from = CacheParts::new(bytemuck::cast_slice(&memory), parts()).expect("parts that fit");
    note(
        "slots in parts",
        [
            painted(2 * LEN, |y| {
                in_place(plan, &mut slots_with_parts(y).slots(0..TOKENS), angles)
            }),
            floats(LEN, |y| {
                into(plan, &from.slots(0..TOKENS), &mut tensor(y), angles)
            }),
            painted(2 * LEN, |y| {
                into(plan, x, &mut slots_with_parts(y).slots(0..TOKENS), angles)
            }),
        ],
    );
}

/// The table, by the columns that were added.
#[derive(Default)]
struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Row>,
}

impl Table {
    /// Calls every verb with a plan and angles; `passes` are the outcomes of [`PASSES`].
    fn column(
        &mut self,
        name: &'static str,
        plan: &Rope<impl Stages>,
        angles: &impl Angles,
        passes: [Option<Outcome>; 6],
    ) {
        let mut calls = Vec::new();
        let rotate = ["`rotate`", "`rotate_into` from", "`rotate_into` to"];
        let apply = ["`apply`", "`apply_into` from", "`apply_into` to"];
        forms(&mut calls, rotate, plan, Some(angles));
        let qk = floats(2 * LEN, |memory| {
            let (q, k) = memory.split_at_mut(LEN);
            plan.rotate_qk(&mut tensor(q), &mut tensor(k), angles)
        });
        calls.push(("`rotate_qk`", "tensors", qk));
        let ones = vec![1.0_f32; LEN];
        let x = &Tensor::new(&ones, SHAPE).expect("valid");
        let to = "`rotate_into_each` to";
        let mut each = |operand, outcome| calls.push((to, operand, outcome));
        let to_tensor = floats(LEN, |y| {
            plan.rotate_into_each(x, &mut [Output::new(&mut tensor(y), angles)])
        });
        each("tensor", to_tensor);
        let to_tensors = floats(LEN, |y| {
            plan.rotate_into_each(x, &mut [Output::new(&mut side_by_side(y), angles)])
        });
        each("tensors side by side", to_tensors);
        for kind in &cache_kinds() {
            let to_slots = painted(kind.bytes(), |y| {
                let (mut cache, slots) = (kind.on(y), kind.slots());
                let mut slots = cache.slots(&slots);
                plan.rotate_into_each(x, &mut [Output::new(&mut slots, angles)])
            });
            each(kind.name, to_slots);
        }
        let to_parts = painted(2 * LEN, |y| {
            let mut cache = slots_with_parts(y);
            let mut slots = cache.slots(0..TOKENS);
            plan.rotate_into_each(x, &mut [Output::new(&mut slots, angles)])
        });
        each("slots in parts", to_parts);
        forms(&mut calls, apply, plan, None::<&Rows<'_>>);

        self.columns.push(name);
        let is_first = self.rows.is_empty();
        let all = calls
            .into_iter()
            .map(|(verb, operand, outcome)| (verb, operand, Some(outcome)));
        let passes = PASSES.into_iter().zip(passes);
        let all = all.chain(passes.map(|(verb, outcome)| (verb, "tensors", outcome)));
        for (index, (verb, operand, outcome)) in all.enumerate() {
            if is_first {
                self.rows.push(Row {
                    verb,
                    operands: vec![operand],
                    outcomes: Vec::new(),
                });
            }
            let row = &mut self.rows[index];
            assert_eq!((row.verb, row.operands[0]), (verb, operand));
            row.outcomes.push(outcome);
        }
    }

    /// Adds a column of rows, and of a plan that has a backward pass.
    fn trained(&mut self, name: &'static str, plan: &Rope<impl Transpose>, rows: &Rows<'_>) {
        let [there, into] = backward(plan, rows).map(Some);
        self.column(name, plan, rows, [there, into, None, None, None, None]);
    }

    /// Adds a column of rows, and of a plan without stages, whose gradients of angles have calls of their own.
    fn plain(&mut self, name: &'static str, plan: &Rope, rows: &Rows<'_>) {
        let [there, into] = backward(plan, rows).map(Some);
        let [angles, factors, both] = gradients(plan, rows).map(Some);
        self.column(name, plan, rows, [there, into, angles, factors, both, None]);
    }

    /// Adds a column of full-width rows.
    fn full(&mut self, name: &'static str, plan: &Rope, rows: &FullRows<'_>) {
        let last = Some(channel_gradients(plan));
        self.column(name, plan, rows, [None, None, None, None, None, last]);
    }

    /// Returns the table in Markdown: one row for the operands of a verb whose outcomes are equal, and the refusals.
    fn markdown(self) -> String {
        let mut merged: Vec<Row> = Vec::new();
        for row in self.rows {
            let is_equal =
                |other: &&mut Row| other.verb == row.verb && other.outcomes == row.outcomes;
            match merged.iter_mut().find(is_equal) {
                Some(equal) => equal.operands.extend(row.operands),
                None => merged.push(row),
            }
        }
        // The rows of a verb stand together.
        let mut verbs: Vec<&str> = merged.iter().map(|row| row.verb).collect();
        verbs.dedup();
        merged.sort_by_key(|row| verbs.iter().position(|verb| *verb == row.verb));
        let mut refusals: Vec<String> = Vec::new();
        let mut table = format!("| verb | operand | {} |\n", self.columns.join(" | "));
        table += &format!("|---|---|{}\n", "---|".repeat(self.columns.len()));
        for Row {
            verb,
            operands,
            outcomes,
        } in merged
        {
            table += &format!("| {verb} | {} |", operands.join("; "));
            for outcome in outcomes {
                table += &match outcome {
                    None => " - |".to_string(),
                    Some(Ok(())) => " yes |".to_string(),
                    Some(Err(error)) => {
                        let text = error.to_string();
                        let known = refusals.iter().position(|other| *other == text);
                        let number = known.unwrap_or_else(|| {
                            refusals.push(text);
                            refusals.len() - 1
                        });
                        format!(" {} |", number + 1)
                    }
                };
            }
            table += "\n";
        }
        for (index, text) in refusals.iter().enumerate() {
            let mut line = format!("\n{}.", index + 1);
            for word in text.split(' ') {
                if line.trim_start_matches('\n').len() + word.len() + 1 > 120 {
                    table += &line;
                    line = "\n  ".to_string();
                }
                line += " ";
                line += word;
            }
            table += &line;
        }
        table + "\n"
    }
}

/// Calls both forms of the backward pass.
fn backward(plan: &Rope<impl Transpose>, rows: &Rows<'_>) -> [Outcome; 2] {
    let ones = vec![1.0_f32; LEN];
    let y = &Tensor::new(&ones, SHAPE).expect("valid");
    let (of_tokens, pairs) = (rows.len() / TOKENS, rows.rotary_dim() / 2);
    let mut sums = vec![0.0; rows.len() * pairs];
    let mut angles = PairGradients::new(&mut sums, [TOKENS, of_tokens, pairs]).expect("whole rows");
    let there = floats(LEN, |dy| {
        plan.backward(y, &mut tensor(dy), rows, &mut angles)
    });
    let into = floats(LEN, |dx| {
        plan.backward_into(y, y, &mut tensor(dx), rows, &mut angles)
    });
    [there, into]
}

/// Calls the gradients of a plan without stages.
fn gradients(plan: &Rope, rows: &Rows<'_>) -> [Outcome; 3] {
    let ones = vec![1.0_f32; LEN];
    let x = &Tensor::new(&ones, SHAPE).expect("valid");
    let shape = [TOKENS, rows.len() / TOKENS, rows.rotary_dim() / 2];
    [
        sums(shape, |sums, _| plan.angle_gradients(x, x, sums)),
        sums(shape, |sums, _| plan.factor_gradients(x, x, sums)),
        sums(shape, |cos, sin| plan.cos_sin_gradients(x, x, cos, sin)),
    ]
}

/// Calls the gradients of full-width rows.
fn channel_gradients(plan: &Rope) -> Outcome {
    let ones = vec![1.0_f32; LEN];
    let x = &Tensor::new(&ones, SHAPE).expect("valid");
    sums([TOKENS, 1, ROTARY], |cos, sin| {
        plan.channel_gradients(x, x, cos, sin)
    })
}

/// Runs a call with two lists of sums, which a refused call leaves alone.
fn sums(
    shape: [usize; 3],
    call: impl FnOnce(&mut PairGradients<'_>, &mut PairGradients<'_>) -> Outcome,
) -> Outcome {
    let mut lists = [(); 2].map(|()| vec![0.0; shape.iter().product()]);
    let [mut one, mut two] = lists
        .each_mut()
        .map(|list| PairGradients::new(list, shape).expect("whole rows"));
    let outcome = call(&mut one, &mut two);
    let is_untouched = lists.iter().flatten().all(|sum| *sum == 0.0);
    assert!(outcome.is_ok() || is_untouched, "{outcome:?} has written");
    outcome
}

/// Moves the slots of each kind of cache.
fn moves() -> Table {
    let mut table = Table {
        columns: vec!["slots to slots"],
        rows: Vec::new(),
    };
    let mut note = |operand, outcome| {
        table.rows.push(Row {
            verb: "`move_slots`",
            operands: vec![operand],
            outcomes: vec![Some(outcome)],
        });
    };
    for kind in &cache_kinds() {
        let slots = kind.slots();
        let moved = painted(kind.bytes(), |y| kind.on(y).move_slots(&slots, &slots));
        note(kind.name, moved);
    }
    let moved = painted(2 * LEN, |y| {
        slots_with_parts(y).move_slots(0..TOKENS, 0..TOKENS)
    });
    note("slots in parts", moved);
    table
}

#[test]
fn the_guide_has_the_table() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../rope-core/src/guide/verbs.md"
    );
    let page = std::fs::read_to_string(path).expect("the page");

    let frequencies =
        |rotary_dim| Frequencies::new(rotary_dim, 1e4, &Scaling::Default).expect("a base");
    let of = |count| frequencies(ROTARY).rows(0..count).expect("positions");
    let rows = of(TOKENS);
    let longer = frequencies(ROTARY)
        .with_attention_factor(1.25)
        .expect("a factor");
    let longer = longer.rows(0..TOKENS).expect("positions");
    let per_head = of(TOKENS * HEADS)
        .with_heads(HEADS)
        .expect("a row for each head");
    let wide = frequencies(2 * ROTARY).rows(0..TOKENS).expect("positions");
    let full = FullRows::new(wide).expect("an even number of channels");
    let rope = Rope::new(Pairing::Half).with_window(HEAD_DIM - ROTARY);
    let inverse = rope.with_direction(Direction::Inverse);
    let changed = rope.with_output_pairing(Pairing::Interleaved);
    let norm = Norm::new(NormFormula::LLAMA4, 1e-6);
    let hadamard = Hadamard::new(HEAD_DIM).expect("a power of two");

    const NONE: [Option<Outcome>; 6] = [const { None }; 6];
    let mut table = Table::default();
    table.plain("rows", &rope, &rows);
    table.column(
        "positions",
        &rope,
        &frequencies(ROTARY).at(0..TOKENS).expect("positions"),
        NONE,
    );
    table.plain("rows per head", &rope, &per_head);
    table.plain("a magnitude", &rope, &longer);
    table.full("full width", &rope, &full);
    table.plain(
        "`Transpose`",
        &rope.with_direction(Direction::Transpose),
        &rows,
    );
    table.plain("`Inverse`", &inverse, &rows);
    table.plain("`Inverse`, a magnitude", &inverse, &longer);
    table.full("`Inverse`, full width", &inverse, &full);
    table.plain("another pairing", &changed, &rows);
    table.trained("a scale", &rope.with_scale(Scale::constant(0.5)), &rows);
    table.trained("a transform", &rope.with_hadamard(hadamard), &rows);
    table.column("a norm", &rope.with_norm(norm), &rows, NONE);
    let after = norm.with_order(StageOrder::AfterRotation);
    table.column("a norm after", &rope.with_norm(after), &rows, NONE);
    table.plain("`with_parts`", &rope.with_parts(2), &rows);

    let mut renewed = page.clone();
    for (name, table) in [("verbs", table), ("moves", moves())] {
        let (start, end) = (
            format!("<!-- {name} -->\n\n"),
            format!("\n<!-- end of {name} -->"),
        );
        let (before, rest) = renewed.split_once(&start).expect("the table's beginning");
        let (_, rest) = rest.split_once(&end).expect("its end");
        renewed = [before, &start, &table.markdown(), &end, rest].concat();
    }
    rope_tests::snapshot::compare(path, &page, &renewed);
}

//! C calls whose memories overlap. (The borrow checker refuses them in Rust.) The fuzz bodies `packed` and `memories`
//! have any arrangement; this suite has the usual mistakes, with the text of each error.

use std::ptr::{null, null_mut};

use rope::*;
use rope_tests::c::{PLAN, detail, in_slots, tensor_at, zero};

/// Makes calls. All memory exists, with the stated lengths, and handles are freed once.
macro_rules! call {
    ($calls:expr) => {
        // SAFETY: the arguments are as above.
        unsafe { $calls }
    };
}

const TOKENS: usize = 3;
/// Heads of a packed row.
const ROW: usize = 6;
const DIM: usize = 4;
const LEN: usize = TOKENS * ROW * DIM;
/// Bytes of a cache of two heads of 8-bit codes.
const CODES: usize = TOKENS * 2 * DIM;
/// Strides of the packed row, tokens-major.
const STRIDES: [usize; 3] = [LEN, ROW * DIM, DIM];

/// Some heads, from an element of the memory on.
#[derive(Clone, Copy)]
struct Part {
    at: usize,
    heads: usize,
    strides: [usize; 3],
    element: rope_element,
}

const fn part(at: usize, heads: usize) -> Part {
    Part {
        at,
        heads,
        strides: STRIDES,
        element: rope_element::F32,
    }
}

impl Part {
    fn strides(self, strides: [usize; 3]) -> Self {
        Part { strides, ..self }
    }

    fn of(self, memory: &mut [f32]) -> rope_operand {
        let [_, token, head] = self.strides;
        let layout = rope_layout {
            shape: [1, TOKENS, self.heads, DIM],
            strides: self.strides,
        };
        let len = (TOKENS - 1) * token + self.heads.saturating_sub(1) * head + DIM;
        let data = memory.as_mut_ptr().wrapping_add(self.at).cast();
        tensor_at(data, len, self.element as i32, layout)
    }
}

fn memory() -> Vec<f32> {
    (0..2 * LEN).map(|i| i as f32 / 16.0 - 2.0).collect()
}

const ROWS: [f32; TOKENS * DIM] = [
    0.5, 0.25, 0.75, -0.5, 0.125, 1.0, -0.75, 0.5, 1.0, 0.5, 0.25, 0.125,
];

fn rows() -> rope_angles {
    rope_rows_joined(ROWS.as_ptr(), ROWS.len(), DIM)
}

const DISJOINT: &str = "they must be disjoint";

fn text(written: &str, other: &str, bytes: usize, at: usize, way_out: &str) -> String {
    format!(
        "{written} is written and overlaps {other}, in {bytes} bytes from byte {at} of {written}; {way_out}"
    )
}

/// Asserts that a call is refused with these words and writes nothing.
#[track_caller]
fn refused(words: &str, call: impl FnOnce(&mut [f32]) -> rope_status) {
    let mut memory = memory();
    let before = memory.clone();
    assert_eq!(call(&mut memory), rope_status::MemoryOverlap);
    assert_eq!(detail(), words);
    assert!(memory == before, "it has written");
}

#[track_caller]
fn qk_refused(q: Part, k: Part, bytes: usize, at: usize, way_out: &str) {
    refused(&text("q", "k", bytes, at, way_out), |memory| {
        let (q, k) = (q.of(memory), k.of(memory));
        call!(rope_rotate_qk(&PLAN, &q, &k, &rows()))
    });
}

/// Asserts that Q and K are rotated, with the bits of one call after the other.
#[track_caller]
fn qk_rotated(q: Part, k: Part) {
    let (mut got, mut expected) = (memory(), memory());
    for (q, k) in [(q, k), (k, q)] {
        let (q, k) = (q.of(&mut got), k.of(&mut got));
        let status = call!(rope_rotate_qk(&PLAN, &q, &k, &rows()));
        assert_eq!(status, rope_status::Ok, "{}", detail());
    }
    for part in [q, k, q, k] {
        let status = call!(rope_rotate(&PLAN, &part.of(&mut expected), &rows()));
        assert_eq!(status, rope_status::Ok);
    }
    assert!(got == expected && got != memory());
}

#[test]
fn q_and_k_that_share_heads() {
    const SHARED: &str =
        "they must share no element: in a packed row K begins after the heads of Q";
    for (q, k, bytes, at) in [
        // Q is K.
        (part(0, 3), part(0, 3), 240, 0),
        // K begins one head after Q.
        (part(0, 3), part(DIM, 3), 224, 16),
        // Fewer heads in the same memory.
        (part(0, 3), part(0, 1), 208, 0),
        // K of a packed row begins one head too early, or one element.
        (part(0, 4), part(2 * DIM, 2), 224, 32),
        (part(0, 4), part(3 * DIM - 1, 1), 208, 44),
        // The last head of K is the first head of Q in the next token.
        (part(0, 3), part(3 * DIM, 4), 192, 48),
    ] {
        qk_refused(q, k, bytes, at, SHARED);
    }
    // K has every seventh head of a row of six, and shares no head with the first two of Q.
    let k = part(3 * DIM, 1).strides([0, 7 * DIM, DIM]);
    let ambiguous =
        "between one another they need equal strides in bytes, or a call of rope_rotate each";
    qk_refused(part(0, 2), k, 176, 48, ambiguous);
}

#[test]
fn q_and_k_between_one_another() {
    let heads_major = [LEN, DIM, TOKENS * DIM];
    let beside = [LEN, ROW * DIM, 3 * DIM];
    let beside_heads_major = [LEN, 2 * DIM, 2 * TOKENS * DIM];
    for (q, k, strides) in [
        // One after another; Q, K and V of a packed row; K first.
        (part(0, 6), part(LEN, 6), STRIDES),
        (part(0, 3), part(3 * DIM, 2), STRIDES),
        (part(2 * DIM, 4), part(0, 2), STRIDES),
        // Heads-major: the heads of each tensor lie one after another.
        (part(0, 4), part(4 * TOKENS * DIM, 2), heads_major),
        // Heads of Q, K and V beside each other, tokens-major and heads-major.
        (part(0, 2), part(DIM, 2), beside),
        (part(0, 3), part(DIM, 3), beside_heads_major),
    ] {
        qk_rotated(q.strides(strides), k.strides(strides));
    }
    // One head of K in the gap after the first head of each of Q's tokens, for any stride of its heads.
    let k = part(DIM, 1).strides([0, ROW * DIM, usize::MAX]);
    qk_rotated(part(0, 2).strides(beside), k);
    // K of 16 bits has equal strides in bytes.
    let k = Part {
        element: rope_element::Bf16,
        ..part(4 * DIM, 2).strides(STRIDES.map(|stride| 2 * stride))
    };
    qk_rotated(part(0, 4), k);
}

#[test]
fn source_and_target() {
    let (q, k) = (part(0, 3), part(3 * DIM, 3));
    let norm: rope_norm = zero();
    let chain = rope_plan {
        norm: &norm,
        ..PLAN
    };
    // The same heads, interleaved heads, and a plan with a norm.
    for (plan, from, to, bytes) in [(PLAN, q, q, 240), (PLAN, q, k, 192), (chain, q, q, 240)] {
        let way_out = "they must be disjoint; rope_rotate rotates in place";
        refused(&text("y", "x", bytes, 0, way_out), |memory| {
            let (x, y) = (from.of(memory), to.of(memory));
            call!(rope_rotate_into(&plan, &x, &y, &rows()))
        });
    }
    let mut sums = [0.0_f64; TOKENS * DIM / 2];
    let angles = rope_pair_gradients {
        sums: sums.as_mut_ptr(),
        rows: TOKENS,
        heads: 1,
        pairs: DIM / 2,
    };
    let way_out = "they must be disjoint; rope_backward works in place";
    refused(&text("dx", "dy", 240, 0, way_out), |memory| {
        let (y, dx) = (part(LEN, 3).of(memory), q.of(memory));
        call!(rope_backward_into(&PLAN, &y, &dx, &dx, &rows(), &angles))
    });
    refused(&text("dy", "y", 192, 0, DISJOINT), |memory| {
        let (y, dy) = (q.of(memory), k.of(memory));
        call!(rope_backward(&PLAN, &y, &dy, &rows(), &angles))
    });
    refused(&text("sums", "sin", 48, 0, DISJOINT), |memory| {
        let (x, kind) = (q.of(memory), rope_gradient_kind::CosSin as i32);
        call!(rope_gradients(kind, &PLAN, &x, &x, &angles, &angles))
    });
    assert!(sums == [0.0; TOKENS * DIM / 2]);
}

#[test]
fn caches_and_scales() {
    let slots = rope_slots {
        kind: rope_slots_kind::Range as i32,
        count: TOKENS,
        ..zero()
    };
    // Codes from a byte of the memory on, and their scales, from another byte on.
    let cache = |memory: &mut [f32], codes: usize, scales: usize| {
        let first = memory.as_mut_ptr();
        let mut cache: rope_cache = zero();
        cache.memory = first.wrapping_byte_add(codes).cast();
        (cache.bytes, cache.format) = (CODES, rope_cache_format::E4m3 as i32);
        cache.layout.kind = rope_cache_layout_kind::Nhd as i32;
        cache.layout.extents = [1, TOKENS, 2, DIM, 0];
        cache.scale.kind = rope_quant_scale_kind::MadeApart as i32;
        (cache.scale.least, cache.scale.strides) = (1e-6, [0, 2, 1]);
        (cache.scales, cache.scales_count) = (first.wrapping_byte_add(scales).cast(), 2 * TOKENS);
        cache
    };
    let into = |memory: &mut [f32], scales: usize| {
        let (x, cache) = (part(LEN, 2).of(memory), cache(memory, 0, scales));
        let (y, rows) = (in_slots(&cache, &slots), rows());
        call!(rope_rotate_into(&PLAN, &x, &y, &rows))
    };
    assert_eq!(into(&mut memory(), CODES), rope_status::Ok, "{}", detail());
    let words = text("cache.scales", "cache.memory", 4, 0, DISJOINT);
    refused(&words, |memory| into(memory, CODES - 4));
    refused(&text("cache.memory", "x", 24, 0, DISJOINT), |memory| {
        let (x, cache) = (part(0, 2).of(memory), cache(memory, 200, 200 + CODES));
        call!(rope_apply_into(&PLAN, &x, &in_slots(&cache, &slots)))
    });
    refused(&text("y", "cache.memory", 24, 0, DISJOINT), |memory| {
        let (y, cache) = (part(0, 2).of(memory), cache(memory, 0, CODES));
        call!(rope_apply_into(&PLAN, &in_slots(&cache, &slots), &y))
    });
}

/// Asserts that a call is refused because of eight bytes of a result.
#[track_caller]
fn result_refused(status: rope_status, written: &str, other: &str) {
    assert_eq!(status, rope_status::MemoryOverlap);
    let words = format!("{written} is written and overlaps {other}, in 8 bytes");
    assert!(detail().starts_with(&words), "{}", detail());
}

/// The outputs of a call are disjoint from its inputs and from each other.
#[test]
fn results() {
    let (axes, positions) = (rope_axes_text(DIM), rope_positions_range(0, 1));
    let mut frequencies = null_mut();
    let made = call!(rope_frequencies_new(&axes, 1e4, null(), &mut frequencies));
    assert_eq!(made, rope_status::Ok);
    let angles = rope_angles_at(frequencies, &positions);
    let status = call!(rope_table_new(&angles, frequencies.cast()));
    result_refused(status, "table", "frequencies");
    assert_eq!(call!(rope_frequencies_free(frequencies)), rope_status::Ok);

    // The tokens of a rank, and their number, by the offsets of packed sequences.
    let mut memory = [0_usize, 3, 8, 0];
    let (first, kind) = (memory.as_mut_ptr(), rope_positions_kind::StripedShard);
    let shard = rope_positions {
        values: first.cast(),
        count: 3,
        number: rope_number::U64 as i32,
        ..rope_positions_shard(kind as i32, 0, 1, 2)
    };
    for (tokens, count, written, other) in [
        (2, 3, "tokens", "values"),
        (3, 1, "count", "values"),
        (3, 3, "tokens", "count"),
    ] {
        let (tokens, count) = (first.wrapping_add(tokens), first.wrapping_add(count));
        let status = call!(rope_shard_tokens(&shard, tokens, 1, count));
        result_refused(status, written, other);
        assert_eq!(memory, [0, 3, 8, 0]);
    }

    let json = r#"{"model_type": "llama", "head_dim": 64, "rope_theta": 10000.0}"#;
    // Has the alignment of a pointer, which is checked before the overlap.
    #[repr(align(8))]
    struct Aligned(rope_plan);
    let mut plan = Aligned(PLAN);
    let (text, len) = (json.as_ptr().cast(), json.len());
    let (out, plan_out) = ((&raw mut plan).cast(), &raw mut plan.0);
    let status = call!(rope_frequencies_from_config(
        text,
        len,
        null(),
        out,
        plan_out
    ));
    assert_eq!(status, rope_status::MemoryOverlap);
    assert_eq!(plan.0.pairing, PLAN.pairing);
}

//! Numbers, names, versions and statuses; handles of other kinds; layouts.

use super::*;

/// Returns a static text of the library.
fn text(text: *const c_char) -> &'static str {
    assert!(!text.is_null());
    // SAFETY: the text is static, and it ends.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().expect("UTF-8")
}

#[test]
fn versions_match_the_package() {
    let version = env!("CARGO_PKG_VERSION");
    let numbers = [ROPE_VERSION_MAJOR, ROPE_VERSION_MINOR, ROPE_VERSION_PATCH];
    assert_eq!(numbers.map(|n| n.to_string()).join("."), version);
    let [major, minor, patch] = numbers;
    assert_eq!(rope_version(), major * 1_000_000 + minor * 1_000 + patch);
}

/// Every backend has a number: the first has that of `Scalar`, and 0 stands for the best.
#[test]
fn backends_match_rope_core() {
    let first = rope_backend::Scalar as i32;
    let numbers = first..first + Backend::ALL.len() as i32;
    let named = numbers.map(|number| {
        let available = rope_backend_available(number) == 1;
        (text(rope_backend_name(number)), available)
    });
    let mut named: Vec<_> = named.collect();
    let expected = Backend::ALL.iter().map(|it| (it.name(), it.is_available()));
    let mut expected: Vec<_> = expected.collect();
    named.sort_unstable();
    expected.sort_unstable();
    assert_eq!(named, expected);
    assert_eq!(text(rope_backend_name(0)), Backend::best().name());
    assert_eq!(rope_backend_available(0), 1);
    for none in [-1, first - 1, first + named.len() as i32, i32::MIN] {
        assert!(rope_backend_name(none).is_null());
        assert_eq!(rope_backend_available(none), 0);
    }
    // A plan and frequencies have an available backend.
    let made = Owned::new(64);
    let (mut x, table) = (values::<f32>(64), values::<f32>(64));
    for &backend in rope_backend::ALL {
        let (view, backend) = (tensor(&mut x, [1, 1, 1, 64]), backend as i32);
        let plan = with!(plan(rope_pairing::Half); backend = backend);
        let expected = match rope_backend_available(backend) {
            1 => rope_status::Ok,
            _ => rope_status::BackendUnavailable,
        };
        let rotated = call!(rope_rotate(&plan, &view, &joined(&table, 64)));
        let set = call!(rope_frequencies_set_backend(made.0, backend));
        assert_eq!([rotated, set], [expected; 2]);
    }
}

/// The name of a value in place of another enumeration's would be a value of it: no number but 0 names two values.
#[test]
fn enumerations_share_no_values() {
    let header = include_str!("../../include/rope.h");
    let named = header.lines().filter_map(|line| {
        let (name, rest) = line.trim().strip_prefix("ROPE_")?.split_once(" = ")?;
        Some((rest.split_once(',')?.0.parse().ok()?, name))
    });
    let mut named: Vec<(i32, &str)> = named.filter(|&(number, _)| number != 0).collect();
    named.sort_unstable();
    assert!(named.len() > 150, "{}", named.len());
    for pair in named.windows(2) {
        assert_ne!(pair[0].0, pair[1].0, "{pair:?}");
    }
}

/// A sentence for each status, and one for numbers that are no status.
#[test]
fn messages() {
    let none = "not a status of this library";
    let statuses: Vec<i32> = rope_status::ALL.iter().map(|&it| it as i32).collect();
    let message = |status| text(rope_error_message(status));
    let sentences: Vec<&str> = statuses.iter().copied().map(message).collect();
    for (index, sentence) in sentences.iter().enumerate() {
        assert!(!sentence.is_empty() && *sentence != none);
        assert!(!sentences[..index].contains(sentence), "{sentence}");
    }
    let others = (-5..200).filter(|number| !statuses.contains(number));
    for other in others.chain([i32::MIN]) {
        assert_eq!(message(other), none);
    }
}

/// Every thread has its own last refusal, which a short buffer cuts.
#[test]
fn details_are_of_a_thread() {
    let status = call!(rope_scaling_init(null_mut(), 0));
    assert_eq!(status, rope_status::Null);
    let words = "scaling is NULL; it must point to the memory that the call reads or writes there";
    assert_eq!(detail(), words);
    let other = std::thread::spawn(detail).join();
    assert_eq!(other.expect("it does not panic"), "");
    let mut short = [0x7f_u8; 9];
    ok!(
        rope_error_detail(short.as_mut_ptr().cast(), 8),
        rope_error_detail(null_mut(), 0),
    );
    assert_eq!(&short, b"scaling\0\x7f");
    assert_eq!(call!(rope_error_detail(null_mut(), 3)), rope_status::Null);
}

/// The library finds out that memory holds no handle, and says the same of every kind.
#[test]
fn handles_of_other_kinds() {
    #[repr(align(64))]
    struct Memory([u8; 512]);
    let mut memory = Memory([0xa5; 512]);
    let (other, mut refusals) = (memory.0.as_mut_ptr(), Refusals::default());
    refused!(
        refusals,
        rope_frequencies_describe(other.cast(), &mut zero()),
        rope_frequencies_set_angle(other.cast(), 0),
        rope_frequencies_free(other.cast()),
        rope_table_rows(other.cast(), &mut zero()),
        rope_table_free(other.cast()),
        rope_model_layers(other.cast(), &mut 0),
        rope_model_free(other.cast()),
    );
    assert!(memory.0.iter().all(|&byte| byte == 0xa5));
    compare!(refusals, "handles");
    // Null is no handle to free.
    ok!(
        rope_frequencies_free(null_mut()),
        rope_table_free(null_mut()),
        rope_model_free(null_mut()),
    );
}

/// The three orders of the axes in memory.
#[test]
fn layouts_match_rope_core() {
    let shape = [2, 5, 3, 64];
    let [batch, tokens, heads, head_dim] = shape;
    for &order in rope_order::ALL {
        let expected = match order {
            rope_order::Bshd => Layout::bshd(shape),
            rope_order::Bhsd => Layout::bhsd([batch, heads, tokens, head_dim]),
            rope_order::Sbhd => Layout::sbhd([tokens, batch, heads, head_dim]),
        };
        let strides = expected.expect("valid").strides();
        let expected = (shape, [strides.batch, strides.token, strides.head]);
        let mut layout: rope_layout = zero();
        let mut init = |order, batch| {
            let out = &mut layout;
            let status = call!(rope_layout_init(out, order, batch, tokens, heads, head_dim));
            assert_eq!((layout.shape, layout.strides), expected);
            status
        };
        assert_eq!(init(order as i32, batch), rope_status::Ok);
        let overflow = init(order as i32, usize::MAX);
        assert_eq!(overflow, rope_status::ShapeOverflow);
        let unknown = init(next(rope_order::ALL, |order| order as i32), batch);
        assert_eq!(unknown, rope_status::UnknownValue);
    }
}

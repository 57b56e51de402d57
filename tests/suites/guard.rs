//! No read and no write beyond the buffers: they touch an unreadable page, on one side and on the other. A fault ends
//! the process; `--test-threads 1` then shows in which test.

use rope_core::{Backend, Rows, Tensor, TensorMut};
use rope_tests::guard::{Edge, Guarded};
use rope_tests::number::{paint, values};
use rope_tests::{
    Angles, Number, Placed, Rotation, Source, compare, each_element, each_element_pair, oracle,
};

/// Rows whose memory touches an unreadable page.
struct GuardedRows {
    angles: Angles,
    joined: Guarded<f32>,
    cos: Guarded<f32>,
    sin: Guarded<f32>,
}

impl GuardedRows {
    fn new(source: &mut Source<'_>, rows: usize, pairs: usize, edge: Edge) -> Self {
        let angles = Angles::any(source, rows, pairs);
        let row = |row: usize| row * pairs..(row + 1) * pairs;
        let joined: Vec<f32> = (0..rows)
            .flat_map(|i| [&angles.cos[row(i)], &angles.sin[row(i)]].concat())
            .collect();
        GuardedRows {
            joined: Guarded::new(&joined, edge),
            cos: Guarded::new(&angles.cos, edge),
            sin: Guarded::new(&angles.sin, edge),
            angles,
        }
    }

    /// Joined and apart.
    fn rows(&self) -> [Rows<'_>; 2] {
        let pairs = self.angles.pairs;
        let factor = self.angles.attention_factor;
        [
            Rows::new(&self.joined, 2 * pairs),
            Rows::from_cos_sin(&self.cos, &self.sin, [self.angles.rows, pairs], 2 * pairs),
        ]
        .map(|rows| {
            rows.and_then(|rows| rows.with_attention_factor(factor))
                .expect("whole rows")
        })
    }
}

fn places(shape: [usize; 4]) -> [Placed; 2] {
    [Placed::bshd(shape), Placed::bhsd(shape)]
}

fn in_place<E: Number>(source: &mut Source<'_>, shape: [usize; 4], rows: &GuardedRows, edge: Edge) {
    for rotation in Rotation::in_place() {
        for place in places(shape) {
            let x = values::<E>(source, place.len);
            let expected =
                oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&x, &place.view));
            for backend in Backend::available() {
                for given in rows.rows() {
                    let mut got = Guarded::new(&x, edge);
                    let mut tensor =
                        TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                    rotation
                        .plan(backend)
                        .rotate(&mut tensor, &given)
                        .expect("rows that fit");
                    let doing = format!("{backend}, {} in place, {rotation:?}, {edge:?}", E::NAME);
                    compare(&got, &expected, &place.view, &doing);
                }
            }
        }
    }
}

fn into<I: Number, O: Number>(
    source: &mut Source<'_>,
    shape: [usize; 4],
    rows: &GuardedRows,
    edge: Edge,
) {
    for rotation in Rotation::all() {
        for place in places(shape) {
            let x = values::<I>(source, place.len);
            let y = paint::<O>(source, place.len);
            let expected =
                oracle::rotated(rotation, &rows.angles, (&x, &place.view), (&y, &place.view));
            let x = Guarded::new(&x, edge);
            let mut got = Guarded::new(&y, edge);
            let [given, _] = rows.rows();
            for backend in Backend::available() {
                got.copy_from_slice(&y);
                let from = Tensor::new(&x, place.layout).expect("a valid tensor");
                let mut to = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
                rotation
                    .plan(backend)
                    .rotate_into(&from, &mut to, &given)
                    .expect("rows that fit");
                let doing = format!(
                    "{backend}, {} to {}, {rotation:?}, {edge:?}",
                    I::NAME,
                    O::NAME
                );
                compare(&got, &expected, &place.view, &doing);
            }
        }
    }
}

#[test]
fn nothing_beyond_the_buffers() {
    let source = &mut Source::random("nothing_beyond_the_buffers");
    // (head_dim, rotary_dim): every remainder of every vector, and channels that pass.
    let small = (2..=66).map(|head_dim| (head_dim, head_dim & !1));
    let large = [
        (96, 24),
        (128, 128),
        (130, 128),
        (160, 158),
        (192, 64),
        (256, 254),
        (300, 298),
        (576, 576),
    ];
    for edge in Edge::ALL {
        for (head_dim, rotary_dim) in small.clone().chain(large) {
            let shape = [1, source.within(1, 2), source.within(1, 2), head_dim];
            let rows = GuardedRows::new(source, shape[1], rotary_dim / 2, edge);
            each_element!(in_place(source, shape, &rows, edge));
            each_element_pair!(into(source, shape, &rows, edge));
        }
    }
}

/// The pages guard: a child process that reads one element too far dies.
#[cfg(not(miri))]
#[test]
fn the_pages_are_unreadable() {
    const CHILD: &str = "ROPE_GUARD_CHILD";
    if let Ok(edge) = std::env::var(CHILD) {
        let edge = if edge == "before" {
            Edge::Before
        } else {
            Edge::After
        };
        let buffer = Guarded::new(&[1.0_f32; 3], edge);
        let outside = match edge {
            Edge::Before => buffer.as_ptr().wrapping_sub(1),
            Edge::After => buffer.as_ptr().wrapping_add(3),
        };
        // SAFETY: none. It is to fault, in a process made for that.
        let value = unsafe { outside.read_volatile() };
        println!("read {value}");
        return;
    }
    let this = std::env::current_exe().expect("a path");
    for edge in ["before", "after"] {
        let child = std::process::Command::new(&this)
            .args(["--exact", "guard::the_pages_are_unreadable", "--nocapture"])
            .env(CHILD, edge)
            .output();
        let Ok(child) = child else {
            // Emulators that cannot start their like.
            return;
        };
        use std::os::unix::process::ExitStatusExt;
        let signal = child.status.signal();
        assert!(
            matches!(signal, Some(libc::SIGSEGV | libc::SIGBUS)),
            "{edge}: {child:?}"
        );
    }
}

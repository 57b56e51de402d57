//! Quantization without another stage: values go from a tensor into a quantized format directly.

use crate::base::limits::MOST_HEADS;
use crate::describe::address::TokenAddress;
use crate::describe::cache::{Codes, SlotsTarget};
use crate::describe::tensor::Bytes;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::kernel::values::Values;
use crate::pass::Pass;

/// Heads that are contiguous in the source and in the target.
struct Run {
    /// The slot of the first head's token, and the index of the head.
    token: TokenAddress,
    head: usize,
    count: usize,
    /// The source index of the first head, and the index after the last head at both ends.
    start: usize,
    end: [usize; 2],
}

/// Quantizes heads of a tensor into a quantized format.
///
/// The heads of several tokens go together if they are contiguous at both ends: the fixed cost of a call is that of one
/// head of Q8_0.
pub(crate) fn run(
    pass: &Pass<'_>,
    (x, element): (Bytes<'_>, &'static OutOfPlaceKernels),
    cache: &mut SlotsTarget<'_>,
    codes: Codes<'_>,
) {
    let mut walk = pass.walk_into_slots(x.layout, cache);
    let head_dim = pass.shape.head_dim;
    let (width, joins) = (
        cache.stored.layout.shape().head_dim,
        cache.stored.joins_tokens(),
    );
    let mut side = None;
    let side = cache.side(&mut side);
    let mut write = |run: &Run| {
        let bytes = &x.bytes[run.start * element.size..];
        let values = Values::of(
            element.element,
            &bytes[..run.count * head_dim * element.size],
        );
        let heads = [run.head, run.count];
        cache.write_codes(pass.proof, codes, run.token, heads, values, side);
    };
    walk.most = if x.layout.strides().head == head_dim {
        MOST_HEADS
    } else {
        1
    };
    let mut last: Option<Run> = None;
    walk.run_dyn(&mut |span| {
        let end = [
            span.at[0] + span.count * head_dim,
            span.at[1] + span.count * width,
        ];
        if let Some(run) = &mut last {
            if joins && run.end == span.at && run.count + span.count <= MOST_HEADS {
                run.count += span.count;
                run.end = end;
                return;
            }
            write(run);
        }
        last = Some(Run {
            token: span.tokens[1],
            head: span.first[2],
            count: span.count,
            start: span.at[0],
            end,
        });
    });
    if let Some(run) = last {
        write(&run);
    }
}

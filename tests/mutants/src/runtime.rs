
extern crate std as mutant_std;
use core::sync::atomic::{AtomicBool as Flag, AtomicUsize as Number, Ordering::Relaxed as AnyOrder};

static MUTANT: Number = Number::new(usize::MAX);
static REACHED: [Flag; 1 << 16] = [const { Flag::new(false) }; 1 << 16];
const COLLECT: usize = usize::MAX - 1;

/// Whether this process runs that mutant: `ROPE_MUTANT` has its number, or else the path of a file that gets the
/// numbers of all that are reached. Deprecated, so that rustc names each place that it compiles.
#[deprecated]
#[inline(always)]
pub(crate) fn mutant(id: usize) -> bool {
    let chosen = MUTANT.load(AnyOrder);
    chosen == id || chosen >= COLLECT && reached(id)
}

#[cold]
#[inline(never)]
fn reached(id: usize) -> bool {
    if REACHED[id].swap(true, AnyOrder) && MUTANT.load(AnyOrder) == COLLECT {
        return false;
    }
    let text = mutant_std::env::var("ROPE_MUTANT").unwrap_or_default();
    MUTANT.store(text.parse().unwrap_or(COLLECT), AnyOrder);
    if MUTANT.load(AnyOrder) == COLLECT && !text.is_empty() {
        let file = mutant_std::fs::File::options().create(true).append(true).open(&text);
        mutant_std::io::Write::write_all(&mut file.unwrap(), mutant_std::format!("{id}\n").as_bytes()).unwrap();
    }
    MUTANT.load(AnyOrder) == id
}

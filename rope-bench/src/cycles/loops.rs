//! Assembly as compilers write it: functions, and the loop of a function that heads run through.
//!
//! A way through a loop begins at a label and ends with a jump back to it; it calls nothing and passes no inner loop.
//! It rotates heads in place if it reads as many bytes from memory as it writes there, those of cos and sin besides
//! where they are not kept in registers, and if they are a part of a head. Constants and the function's own frame are
//! not memory. Of several ways the one that rotates the most elements is meant, then the one with the most loops around
//! it, as what is left over when all whole passes are done stands outside; then the shortest, as compilers put what is
//! rare out of the way.

use std::cmp::Reverse;
use std::collections::HashMap;

/// Ways that are looked at, at most.
const WAYS: usize = 4_000;

/// Jumps that are always taken.
const JUMPS: [&str; 3] = ["jmp", "b", "b.w"];

/// Instructions after which control is elsewhere for good.
const EXITS: [&str; 5] = ["ret", "ud2", "bx", "br", "pop"];

/// Calls, after which it comes back.
const CALLS: [&str; 4] = ["call", "bl", "blx", "blr"];

/// A function: its name as it is read, and its labels (`name:`) and instructions.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Demangled.
    pub name: String,
    /// In their order.
    pub lines: Vec<String>,
}

/// All functions of a file. A name that was set equal to another has the other's lines.
pub fn functions(text: &str) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let demangled = |symbol: &str| format!("{:#}", rustc_demangle::demangle(symbol));
    for line in text.lines() {
        let line = uncommented(line).trim();
        let label = line.strip_suffix(':');
        if let Some(symbol) = label.filter(|label| !label.starts_with(".L")) {
            places.insert(symbol, functions.len());
            let name = demangled(symbol);
            let lines = Vec::new();
            functions.push(Function { name, lines });
        } else if let Some((alias, of)) = line
            .strip_prefix(".set")
            .and_then(|set| set.split_once(','))
        {
            if let Some(&place) = places.get(of.trim()) {
                let (name, lines) = (demangled(alias.trim()), functions[place].lines.clone());
                functions.push(Function { name, lines });
            }
        } else if let Some(function) = functions.last_mut()
            && !line.is_empty()
            && (label.is_some() || !line.starts_with('.'))
        {
            // Data are directives, so what is left is an instruction.
            let words: Vec<_> = line.split_whitespace().collect();
            function.lines.push(words.join(" "));
        }
    }
    functions
}

/// Without the comments that compilers write: `#` on x86 (an ARM immediate follows its `#` at once), `//` and `@` on
/// ARM.
fn uncommented(line: &str) -> &str {
    let ends = ["# ", "#\t", "//", "@ ", "\t#APP", "\t#NO_APP"];
    let end = ends.iter().filter_map(|&mark| line.find(mark)).min();
    &line[..end.unwrap_or(line.len())]
}

/// What the elements of a loop must be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bytes of an element.
    pub size: usize,
    /// Elements of a head.
    pub head: usize,
    /// Whether cos and sin, which are f32, are read in the loop; or stay in registers.
    pub rows: bool,
}

/// The loop that a head runs through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hot {
    /// An iteration.
    pub instructions: Vec<String>,
    /// Elements that it rotates.
    pub elements: usize,
    /// Vectors written to the stack and read from there.
    pub spills: usize,
    /// Other values that found no register.
    pub slots: usize,
    /// Constants read.
    pub constants: usize,
}

/// The loop over the elements of a head that are rotated in place.
pub fn hot(function: &Function, wanted: Wanted) -> Result<Hot, String> {
    let lines = &function.lines;
    let places: HashMap<&str, usize> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((line.strip_suffix(':')?, at)))
        .collect();
    // From each label to the last jump back to it.
    let mut extents: HashMap<usize, usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(&head) = target(line).and_then(|target| places.get(target))
            && head <= at
        {
            extents.insert(head, at);
        }
    }
    let frames = [
        "mov rbp, rsp",
        "lea rbp, [rsp",
        "mov x29, sp",
        "add x29, sp",
    ];
    let is_frame = |line: &String| frames.iter().any(|frame| line.starts_with(frame));
    let framed = lines.iter().any(is_frame);
    let mut found = Vec::new();
    for (&head, &end) in &extents {
        let is_inner = |at: usize| {
            at > head && extents.contains_key(&at) && returns(lines, &places, (head, end), at)
        };
        let around = extents
            .iter()
            .filter(|&(&from, &to)| from < head && end < to)
            .count();
        for way in ways(lines, &places, (head, end), is_inner)
            .ok_or("a loop with too many ways through it")?
        {
            let hot = rotation(&way, wanted, framed);
            found.extend(hot.map(|hot| {
                let length = Reverse(hot.instructions.len());
                ((hot.elements, around, length, Reverse(head)), hot)
            }));
        }
    }
    let best = found.into_iter().max_by_key(|(order, _)| *order);
    best.map(|(_, hot)| hot)
        .ok_or_else(|| "no loop rotates elements in place".into())
}

/// Where a jump or a branch goes. Loads of constants, which name labels too, begin with other letters.
fn target(line: &str) -> Option<&str> {
    let last = line.split([' ', ',']).next_back()?;
    (line.starts_with(['j', 'b', 'c', 't']) && last.starts_with(".L")).then_some(last)
}

/// Returns whether a label inside a loop begins an inner loop: control returns to it without passing the outer label.
/// Otherwise the jump back to it ends a block that the compiler moved out of the way.
fn returns(
    lines: &[String],
    places: &HashMap<&str, usize>,
    (head, end): (usize, usize),
    label: usize,
) -> bool {
    let (mut seen, mut open) = (vec![false; lines.len()], vec![label + 1]);
    while let Some(mut at) = open.pop() {
        while at <= end && !seen[at] && at != head {
            seen[at] = true;
            if at == label {
                return true;
            }
            let line = &*lines[at];
            at += 1;
            if line.ends_with(':') {
                continue;
            }
            if let Some(&to) = target(line).and_then(|target| places.get(target))
                && (head..=end).contains(&to)
            {
                open.push(to);
            }
            let name = line.split(' ').next().unwrap_or_default();
            if JUMPS.contains(&name) || EXITS.contains(&name) {
                break;
            }
        }
    }
    false
}

/// All ways from a label to itself within some lines; nothing if they are too many.
fn ways<'a>(
    lines: &'a [String],
    places: &HashMap<&str, usize>,
    (head, end): (usize, usize),
    is_inner: impl Fn(usize) -> bool,
) -> Option<Vec<Vec<&'a str>>> {
    let mut ways = Vec::new();
    let mut open: Vec<(usize, Vec<&str>)> = vec![(head + 1, Vec::new())];
    while let Some((mut at, mut way)) = open.pop() {
        while at <= end && !is_inner(at) && way.len() <= end - head {
            let line = &*lines[at];
            at += 1;
            if line.ends_with(':') {
                continue;
            }
            way.push(line);
            let name = line.split(' ').next().unwrap_or_default();
            let to = target(line).and_then(|target| places.get(target)).copied();
            if to == Some(head) {
                ways.push(way.clone());
            } else if let Some(to) = to.filter(|to| (head..=end).contains(to)) {
                open.push((to, way.clone()));
            }
            if [&JUMPS[..], &EXITS, &CALLS]
                .iter()
                .any(|ends| ends.contains(&name))
            {
                break;
            }
        }
        if ways.len() + open.len() > WAYS {
            return None;
        }
    }
    Some(ways)
}

/// An iteration that rotates elements in place.
fn rotation(way: &[&str], wanted: Wanted, framed: bool) -> Option<Hot> {
    let mut hot = Hot {
        instructions: way.iter().map(|&line| line.into()).collect(),
        ..Hot::default()
    };
    let (mut read, mut written) = (0, 0);
    // What two instructions read from one address counts once, unless its registers changed in between.
    let mut seen: Vec<&str> = Vec::new();
    for line in way {
        let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
        let Some(access) = access(name, operands) else {
            let changed = operands.split(',').next().unwrap_or_default();
            seen.retain(|address| changed.is_empty() || !address.contains(changed));
            continue;
        };
        let address = access.address;
        let vector = access.vector;
        if address.contains("rip") || address.contains("LCPI") || address.contains(":lo12:") {
            hot.constants += 1;
        } else if ["rsp", "sp"].iter().any(|sp| address.starts_with(sp))
            || framed
                && ["rbp", "x29"]
                    .iter()
                    .any(|frame| address.starts_with(frame))
        {
            hot.spills += usize::from(vector);
            hot.slots += usize::from(!vector);
        } else if access.write {
            written += access.bytes;
        } else {
            if !seen.contains(&address) {
                read += access.bytes;
                seen.push(address);
            }
        }
        // ARM's stores and loads may move the address: `[x8], #32`, `[x8, #32]!`.
        if operands.contains("], ") && !operands.contains(" ptr ") || operands.ends_with('!') {
            let moved = address.split(',').next().unwrap_or_default();
            seen.retain(|address| !address.contains(moved));
        }
    }
    hot.elements = written / wanted.size;
    let rows = hot.elements * if wanted.rows { 4 } else { 0 };
    let is_part = hot.elements >= 2 && wanted.head.is_multiple_of(hot.elements);
    (is_part && written.is_multiple_of(wanted.size) && read == written + rows).then_some(hot)
}

/// What an instruction reads or writes.
struct Access<'a> {
    address: &'a str,
    bytes: usize,
    write: bool,
    /// Whether a vector or floating-point register is at the other end.
    vector: bool,
}

fn access<'a>(name: &str, operands: &'a str) -> Option<Access<'a>> {
    let (before, rest) = operands
        .split_once('[')
        .unwrap_or_else(|| operands.rsplit_once(", ").unwrap_or_default());
    if ["lea", "nop", "prefetch", "prfm", "pld"]
        .iter()
        .any(|other| name.starts_with(other))
    {
        return None;
    }
    let address = rest.split(']').next().unwrap_or_default();
    if let Some(size) = before.strip_suffix(" ptr ") {
        // x86, in Intel's syntax, which says how large an operand in memory is; the first one is written.
        let size = size.rsplit(' ').next().unwrap_or_default();
        const SIZES: [&str; 7] = [
            "byte", "word", "dword", "qword", "xmmword", "ymmword", "zmmword",
        ];
        let reads_only = ["cmp", "test", "ucomi", "vucomi", "comi", "vcomi"]
            .iter()
            .any(|other| name.starts_with(other));
        return Some(Access {
            address,
            bytes: 1 << SIZES.iter().position(|&known| known == size)?,
            write: !before.contains(',') && operands.contains("], ") && !reads_only,
            vector: operands.contains("mm"),
        });
    }
    let loads = ["ld", "vld"].iter().any(|start| name.starts_with(start));
    let stores = ["st", "vst"].iter().any(|start| name.starts_with(start));
    if !loads && !stores || !operands.contains('[') && !address.starts_with(".L") {
        return None;
    }
    let registers = before
        .split([',', '{', '}'])
        .map(str::trim)
        .filter(|register| !register.is_empty());
    let bytes =
        registers.clone().map(
            |register| match (register.chars().next(), name.chars().last()) {
                (Some('v'), _)
                    if [".8b", ".4h", ".2s", ".1d"]
                        .iter()
                        .any(|half| register.ends_with(half)) =>
                {
                    8
                }
                (Some('q' | 'v'), _) => 16,
                (Some('d' | 'x'), _) => 8,
                (Some('h'), _) | (Some('w' | 'r' | 'l'), Some('h')) => 2,
                (Some('b'), _) | (Some('w' | 'r' | 'l'), Some('b')) => 1,
                _ => 4,
            },
        );
    let vector = registers
        .clone()
        .any(|register| register.starts_with(['v', 'q', 'd', 's', 'h']));
    Some(Access {
        address,
        bytes: bytes.sum(),
        write: stores,
        vector,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "\t.globl\t_RNvCsb_4rope4turn\n_RNvCsb_4rope4turn:\n\tmov\trax, rdi  # copied\n.LBB0_1:\n\
        \tvmovups\tymm0, ymmword ptr [rax]\n\tvmulps\tymm1, ymm0, ymmword ptr [rsp + 32]\n\
        \tvmulps\tymm2, ymm3, ymmword ptr [rax]\n\tvaddps\tymm0, ymm0, ymmword ptr [rip + .LCPI0_0]\n\
        \tvucomiss\txmm0, xmm0\n\tjp\t.LBB0_3\n.LBB0_2:\n\tvmovups\tymmword ptr [rax], ymm0\n\tadd\trax, 32\n\tdec\trcx\n\
        \tjne\t.LBB0_1\n\tret\n.LBB0_3:\n\tvorps\tymm0, ymm0, ymm1\n\tjmp\t.LBB0_2\n.set twin, _RNvCsb_4rope4turn\n\
        data:\n\t.long\t1\n";
    const ARM: &str = "turn:\n\tmov\tx8, x0\n.LBB0_1:\n\tldp\tq0, q1, [x8]\n\tldr\tx9, [sp, #8]\n\
        \tfmul\tv2.4s, v0.4s, v1.4s\n\tst1\t{ v0.4s, v1.4s }, [x8], #32\n\tsubs\tx1, x1, #1\n\tb.ne\t.LBB0_1\n\tret\n";

    /// Two blocks out of the way: one jumps back into the loop, and one after it to its beginning.
    #[test]
    fn a_block_out_of_the_way_is_no_inner_loop() {
        let text = "turn:\n.LBB0_1:\n\tvmovups\tymm0, ymmword ptr [rax]\n\tjp\t.LBB0_3\n.LBB0_2:\n\
            \tvmovups\tymmword ptr [rax], ymm0\n\tadd\trax, 32\n\tje\t.LBB0_4\n\tjmp\t.LBB0_1\n.LBB0_3:\n\
            \tvorps\tymm0, ymm0, ymm1\n\tjmp\t.LBB0_2\n.LBB0_4:\n\tprefetcht0\tbyte ptr [rcx]\n\tjmp\t.LBB0_1\n";
        let wanted = Wanted {
            size: 4,
            head: 128,
            rows: false,
        };
        let hot = super::hot(&functions(text)[0], wanted).unwrap();
        assert_eq!((hot.elements, hot.instructions.len()), (8, 6));
    }

    #[test]
    fn the_usual_way_through_a_loop_is_found() {
        let functions = functions(X86);
        let names: Vec<_> = functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["rope::turn", "twin", "data"]);
        let wanted = Wanted {
            size: 4,
            head: 128,
            rows: false,
        };
        let hot = super::hot(&functions[1], wanted).unwrap();
        // The operand that is read twice counts once; the rare block is left out.
        assert_eq!((hot.elements, hot.instructions.len()), (8, 10));
        assert_eq!((hot.spills, hot.slots, hot.constants), (1, 0, 1));
        for other in [
            Wanted {
                rows: true,
                ..wanted
            },
            Wanted { head: 12, ..wanted },
        ] {
            assert!(super::hot(&functions[1], other).is_err());
        }
    }

    #[test]
    fn loops_of_arm() {
        let hot = super::hot(
            &functions(ARM)[0],
            Wanted {
                size: 2,
                head: 128,
                rows: false,
            },
        )
        .unwrap();
        assert_eq!(
            (hot.elements, hot.instructions.len(), hot.slots),
            (16, 6, 1)
        );
        let access = |line: &str| {
            let (name, operands) = line.split_once(' ').unwrap();
            super::access(name, operands)
                .map(|access| (access.bytes, access.write, access.address.to_owned()))
        };
        assert_eq!(
            access("strh w9, [x0, #2]"),
            Some((2, true, "x0, #2".into()))
        );
        assert_eq!(
            access("vldr s0, .LCPI3_0"),
            Some((4, false, ".LCPI3_0".into()))
        );
        assert_eq!(access("strd r4, r5, [r0]"), Some((8, true, "r0".into())));
        assert_eq!(access("add x0, x1, #16"), None);
    }
}

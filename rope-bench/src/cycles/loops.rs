//! The loops of a function, and the way that a head takes through one.

use std::collections::{BTreeMap, BTreeSet};

use super::Architecture;
use super::assembly::{Function, Instruction, Line};
use super::values::{Access, Flow, Place, State, Sum, union};

/// Ways through a loop that are looked at, at most.
const WAYS: usize = 2_000;

/// Instructions that control runs through from the first to the last.
#[derive(Debug, Default)]
struct Block {
    instructions: Vec<Instruction>,
    /// Where it goes: the next block in the file first, if it goes there at all.
    successors: Vec<usize>,
    /// Whether one of them is the next block.
    falls: bool,
}

/// One way through a loop, from its head to its head.
#[derive(Clone, Debug)]
pub struct Way {
    /// All that is executed.
    pub instructions: Vec<Instruction>,
    /// Of them, those that go elsewhere than on.
    jumps: usize,
}

/// What a way reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Elements, and cos and sin.
    pub reads: Vec<(Sum, i64)>,
    /// Elements.
    pub writes: Vec<(Sum, i64)>,
    /// Vectors written to the stack and read from there.
    pub spills: usize,
    /// Other reads of the stack: addresses and counts that found no register.
    pub slots: usize,
    /// Constants read.
    pub constants: usize,
}

/// What the elements of a loop must be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bytes of an element.
    pub size: i64,
    /// Elements of a head.
    pub head: i64,
    /// Whether cos and sin, which are f32, are read in the loop; or stay in registers.
    pub rows: bool,
}

/// The loop that a head runs through.
#[derive(Clone, Debug)]
pub struct Hot {
    /// An iteration.
    pub way: Way,
    /// Elements that it rotates.
    pub elements: i64,
    /// What else it does.
    pub traffic: Traffic,
}

/// The loop over the elements of a head that are rotated in place: reads each element and writes it to the same place,
/// and reads cos and sin, or does not. Of several the one with the most elements.
pub fn hot(function: &Function, architecture: Architecture, wanted: Wanted) -> Result<Hot, String> {
    let blocks = blocks(function, architecture);
    let instructions = || blocks.iter().flat_map(|block| &block.instructions);
    let frame = architecture.frame(instructions());
    let loops = loops(&blocks);
    let heads: BTreeSet<usize> = loops.keys().copied().collect();
    let mut found: Vec<(Depth, Hot)> = Vec::new();
    let mut unclear: Option<Depth> = None;
    let mut reasons: BTreeSet<String> = BTreeSet::new();
    for (&head, body) in &loops {
        let Some(ways) = ways(&blocks, head, body, &heads, architecture) else {
            reasons.insert(format!("a loop with more than {WAYS} ways through it"));
            continue;
        };
        let mut right: Vec<Hot> = Vec::new();
        for way in ways {
            let traffic = traffic(&way, architecture, State::new(frame.clone()));
            match elements(&traffic, wanted) {
                Ok(elements) => right.push(Hot {
                    way,
                    elements,
                    traffic,
                }),
                Err(Some(reason)) => drop(reasons.insert(reason)),
                Err(None) => {}
            }
        }
        let around = loops.values().filter(|body| body.contains(&head)).count();
        let Some(most) = right.iter().map(|hot| hot.elements).max() else {
            continue;
        };
        match straightest(right) {
            Ok(hot) => found.push(((hot.elements, around), hot)),
            Err(reason) => {
                unclear = unclear.max(Some((most, around)));
                reasons.insert(reason);
            }
        }
    }
    let best = found.iter().map(|(depth, _)| *depth).max();
    found.retain(|(depth, _)| Some(*depth) == best);
    let reasons: Vec<_> = reasons.into_iter().collect();
    let Some(((_, first), rest)) = found.split_first() else {
        return Err(if reasons.is_empty() {
            "no loop rotates elements in place".into()
        } else {
            reasons.join("; ")
        });
    };
    if unclear >= best {
        return Err(reasons.join("; "));
    }
    if rest.iter().any(|(_, other)| names(other) != names(first)) {
        return Err(format!(
            "{} different loops rotate as many elements",
            found.len()
        ));
    }
    Ok(first.clone())
}

/// Of several loops the one with the most elements is meant, and then the one with the most loops around it: what is
/// left over when all whole passes over the heads are done stands outside of the loop of passes.
type Depth = (i64, usize);

/// The names of its instructions, by which copies of a loop are known as such.
fn names(hot: &Hot) -> Vec<&str> {
    let names = hot.way.instructions.iter().map(|i| i.mnemonic.as_str());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

/// The way that is both the shortest and the one with the fewest jumps: compilers put what is rare out of the way. If
/// that is not one and the same, nobody can tell from the text which way is usual.
fn straightest(ways: Vec<Hot>) -> Result<Hot, String> {
    let jumps = ways.iter().map(|hot| hot.way.jumps).min();
    let length = |hot: &Hot| hot.way.instructions.len();
    let shortest = ways.iter().map(length).min();
    let lengths: Vec<_> = ways
        .iter()
        .map(|hot| (length(hot), hot.way.jumps))
        .collect();
    let usual = |hot: &Hot| Some(hot.way.jumps) == jumps && Some(length(hot)) == shortest;
    let mut usual = ways.into_iter().filter(usual);
    match (usual.next(), usual.next()) {
        (Some(hot), None) => Ok(hot),
        _ => Err(format!(
            "{} ways through a loop, none of which is clearly the usual one; instructions, jumps: {:?}",
            lengths.len(),
            &lengths[..lengths.len().min(4)]
        )),
    }
}

/// How many elements are rotated in place; `None` if this is no such loop, and a reason if it is half of one.
fn elements(traffic: &Traffic, wanted: Wanted) -> Result<i64, Option<String>> {
    let bytes = |accesses: &[(Sum, i64)]| accesses.iter().map(|(_, bytes)| bytes).sum::<i64>();
    let (reads, writes) = (union(&traffic.reads), union(&traffic.writes));
    let covered = |ranges: &BTreeMap<_, Vec<(i64, i64)>>| -> i64 {
        ranges
            .values()
            .flatten()
            .map(|(start, end)| end - start)
            .sum()
    };
    let written = bytes(&traffic.writes);
    if written == 0 || written % wanted.size != 0 {
        return Err(None);
    }
    let elements = written / wanted.size;
    // Each written place is read as well.
    let within = writes.iter().all(|(terms, ranges)| {
        ranges.iter().all(|(start, end)| {
            let over = |(from, to): &(i64, i64)| from <= start && end <= to;
            reads.get(terms).is_some_and(|reads| reads.iter().any(over))
        })
    });
    let rows = if wanted.rows { 4 * elements } else { 0 };
    if !within || covered(&reads) != written + rows {
        return Err(None);
    }
    if covered(&writes) != written {
        return Err(Some("a loop writes a place twice".into()));
    }
    if elements % 2 != 0 || wanted.head % elements != 0 {
        return Err(Some(format!(
            "a loop rotates {elements} elements, which is no part of a head of {}",
            wanted.head
        )));
    }
    Ok(elements)
}

fn traffic(way: &Way, architecture: Architecture, mut state: State) -> Traffic {
    let mut traffic = Traffic::default();
    for instruction in &way.instructions {
        let accesses = architecture.execute(instruction, &mut state);
        for Access {
            write,
            bytes,
            vector,
            place,
        } in accesses
        {
            match place {
                Place::Constant => traffic.constants += 1,
                Place::Stack if vector => traffic.spills += 1,
                Place::Stack => traffic.slots += 1,
                Place::Data(address) if write => traffic.writes.push((address, bytes)),
                Place::Data(address) => traffic.reads.push((address, bytes)),
            }
        }
    }
    traffic
}

fn blocks(function: &Function, architecture: Architecture) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ended = false;
    for line in &function.lines {
        let fresh = blocks
            .last()
            .is_some_and(|block| block.instructions.is_empty());
        match line {
            Line::Label(label) => {
                if !fresh {
                    blocks.push(Block::default());
                }
                ended = false;
                labels.insert(label, blocks.len() - 1);
            }
            Line::Instruction(instruction) => {
                if ended {
                    blocks.push(Block::default());
                }
                if let Some(block) = blocks.last_mut() {
                    block.instructions.push(instruction.clone());
                }
                ended = !matches!(architecture.flow(instruction), Flow::On | Flow::Call);
            }
        }
    }
    let count = blocks.len();
    for (index, block) in blocks.iter_mut().enumerate() {
        let Some(last) = block.instructions.last() else {
            continue;
        };
        let flow = architecture.flow(last);
        block.falls = !matches!(flow, Flow::Jump | Flow::Out) && index + 1 < count;
        if block.falls {
            block.successors.push(index + 1);
        }
        if matches!(flow, Flow::Jump | Flow::Branch) {
            block.successors.extend(labels.get(last.target()));
        }
    }
    blocks
}

/// The natural loops: a head, and all blocks that lead back to it.
fn loops(blocks: &[Block]) -> BTreeMap<usize, BTreeSet<usize>> {
    let dominators = dominators(blocks);
    let mut loops: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, block) in blocks.iter().enumerate() {
        for &head in &block.successors {
            if !dominators[from].contains(&head) {
                continue;
            }
            let body = loops.entry(head).or_insert_with(|| BTreeSet::from([head]));
            let mut open = vec![from];
            while let Some(at) = open.pop() {
                if body.insert(at) {
                    let before = |block: &&usize| blocks[**block].successors.contains(&at);
                    open.extend((0..blocks.len()).collect::<Vec<_>>().iter().filter(before));
                }
            }
        }
    }
    loops
}

/// For each block, those that every way to it passes. Unreached blocks have none.
fn dominators(blocks: &[Block]) -> Vec<BTreeSet<usize>> {
    let mut reached = BTreeSet::from([0]);
    let mut open = vec![0];
    while let Some(at) = open.pop() {
        for &next in &blocks[at].successors {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    let mut before = vec![Vec::new(); blocks.len()];
    for &from in &reached {
        for &to in &blocks[from].successors {
            before[to].push(from);
        }
    }
    let mut dominators: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); blocks.len()];
    for &block in &reached {
        dominators[block] = reached.clone();
    }
    dominators[0] = BTreeSet::from([0]);
    let mut changed = true;
    while changed {
        changed = false;
        for &block in reached.iter().skip(1) {
            let mut common: Option<BTreeSet<usize>> = None;
            for &from in &before[block] {
                common = Some(match common {
                    Some(common) => common.intersection(&dominators[from]).copied().collect(),
                    None => dominators[from].clone(),
                });
            }
            let mut common = common.unwrap_or_default();
            common.insert(block);
            if common != dominators[block] {
                dominators[block] = common;
                changed = true;
            }
        }
    }
    dominators
}

/// All ways from a head to itself that call nothing and enter no inner loop; `None` if they are too many.
fn ways(
    blocks: &[Block],
    head: usize,
    body: &BTreeSet<usize>,
    heads: &BTreeSet<usize>,
    architecture: Architecture,
) -> Option<Vec<Way>> {
    let calls = |block: usize| {
        let calls = |i: &Instruction| architecture.flow(i) == Flow::Call;
        blocks[block].instructions.iter().any(calls)
    };
    let mut ways = Vec::new();
    let mut open = vec![vec![head]];
    let mut steps = 0;
    while let Some(way) = open.pop() {
        steps += 1;
        if steps > 20 * WAYS || ways.len() > WAYS {
            return None;
        }
        let Some(&last) = way.last() else {
            continue;
        };
        if calls(last) {
            continue;
        }
        for &next in &blocks[last].successors {
            if next == head {
                ways.push(joined(blocks, &way));
            } else if body.contains(&next) && !heads.contains(&next) && !way.contains(&next) {
                let mut longer = way.clone();
                longer.push(next);
                open.push(longer);
            }
        }
    }
    Some(ways)
}

fn joined(blocks: &[Block], way: &[usize]) -> Way {
    let jumps = way
        .windows(2)
        .filter(|pair| !(blocks[pair[0]].falls && pair[1] == pair[0] + 1))
        .count();
    Way {
        instructions: way
            .iter()
            .flat_map(|&block| blocks[block].instructions.clone())
            .collect(),
        jumps,
    }
}

#[cfg(test)]
mod tests {
    use super::super::assembly::functions;
    use super::*;

    /// f32, cos and sin in registers.
    const F32: Wanted = Wanted {
        size: 4,
        head: 128,
        rows: false,
    };

    fn found(architecture: Architecture, wanted: Wanted, text: &str) -> Result<Hot, String> {
        let functions = functions(&format!("f:\n{text}"));
        hot(&functions[0], architecture, wanted)
    }

    fn elements(architecture: Architecture, wanted: Wanted, text: &str) -> Result<i64, String> {
        found(architecture, wanted, text).map(|hot| hot.elements)
    }

    /// Reads and writes two vectors through different names of their addresses; `rare` is what happens at .L9.
    fn x86(first: &str, rare: &str) -> String {
        format!(
            "mov r9, rdi\n.L1:\nlea rdx, [rdi + 4*rcx]\nvmulps ymm0, ymm4, ymmword ptr [{first} + 4*rcx + 32]\n\
             vmovups ymm1, ymmword ptr [rdx]\nvtestps ymm1, ymm1\njne .L9\n.L2:\nvmovups ymmword ptr [rdx + 32], ymm0\n\
             vmovups ymmword ptr [rdi + 4*rcx], ymm1\nadd rcx, r8\ndec rsi\njne .L1\nret\n{rare}"
        )
    }

    #[test]
    fn what_is_rare_lies_out_of_the_way() {
        let rare = ".L9:\nvpor ymm1, ymm1, ymm2\njmp .L2\n";
        let hot = found(Architecture::X86_64, F32, &x86("rdi", rare)).unwrap();
        assert_eq!((hot.elements, hot.way.instructions.len()), (16, 10));
        assert_eq!(hot.traffic.reads.len(), 2);
        assert_eq!((hot.traffic.spills, hot.traffic.slots), (0, 0));
        // A way out of the loop is not a way through it.
        let out = ".L9:\ncall panic\nud2\n";
        assert_eq!(
            elements(Architecture::X86_64, F32, &x86("rdi", out)),
            Ok(16)
        );
    }

    #[test]
    fn another_place_is_not_in_place() {
        let text = x86("rbx", ".L9:\nud2\n");
        elements(Architecture::X86_64, F32, &text).unwrap_err();
        // The place is known through a register that was copied in the loop, not before it.
        let text = x86("r9", ".L9:\nud2\n");
        elements(Architecture::X86_64, F32, &text).unwrap_err();
        let text = text.replace(".L1:\n", ".L1:\nmov r9, rdi\n");
        assert_eq!(elements(Architecture::X86_64, F32, &text), Ok(16));
    }

    #[test]
    fn two_ways_of_which_none_is_usual() {
        // The branch goes to the shorter one, but falls into the longer.
        let text = ".L1:\nmovss xmm0, dword ptr [rdi]\nmovsd xmm1, qword ptr [rdi]\ntest eax, eax\nje .L2\n\
                    mulss xmm0, xmm2\nmulss xmm0, xmm2\n.L2:\nmovsd qword ptr [rdi], xmm1\nadd rdi, 8\ndec ecx\njne .L1\nret\n";
        let reason = elements(Architecture::X86_64, F32, text).unwrap_err();
        assert!(reason.contains("2 ways"), "{reason}");
    }

    #[test]
    fn bytes_that_are_no_part_of_a_head() {
        let text = ".L1:\nmovups xmm0, xmmword ptr [rdi]\nmovups xmmword ptr [rdi], xmm0\nmovsd xmm1, qword ptr [rdi + 16]\n\
                    movsd qword ptr [rdi + 16], xmm1\nadd rdi, 24\ndec ecx\njne .L1\nret\n";
        let reason = elements(Architecture::X86_64, F32, text).unwrap_err();
        assert!(reason.contains("6 elements"), "{reason}");
        let twice = text.replace("[rdi + 16], xmm1", "[rdi + 8], xmm1");
        elements(Architecture::X86_64, F32, &twice).unwrap_err();
    }

    #[test]
    fn the_most_elements_and_what_lies_on_the_stack() {
        let small = ".L1:\nldr q0, [x0]\nstr q0, [x0], #16\nsubs x1, x1, #1\nb.ne .L1\n";
        let large = ".L3:\nldr q7, [sp, #32]\nldr x9, [x29, #-8]\nldp q0, q1, [x0]\nfmul v0.4s, v0.4s, v7.4s\n\
                     stp q0, q1, [x0]\nadd x0, x0, x2, lsl #2\ncbnz x1, .L3\nret\n";
        let text = format!("add x29, sp, #64\n{small}{large}");
        let hot = found(Architecture::Aarch64, F32, &text).unwrap();
        assert_eq!((hot.elements, hot.way.instructions.len()), (8, 7));
        assert_eq!((hot.traffic.spills, hot.traffic.slots), (1, 1));
        // Two that differ and rotate as many: no way to tell.
        let large = large.replace("ret\n", "");
        let twin = large.replace(".L3", ".L4").replace("fmul", "fadd");
        let text = format!("add x29, sp, #64\n{large}{twin}ret\n");
        let reason = elements(Architecture::Aarch64, F32, &text).unwrap_err();
        assert!(reason.contains("2 different loops"), "{reason}");
        let text = text.replace("fadd", "fmul");
        assert_eq!(elements(Architecture::Aarch64, F32, &text), Ok(8));
    }

    #[test]
    fn the_scalar_loop_reads_cos_and_sin() {
        let wanted = Wanted { rows: true, ..F32 };
        let text = ".L1:\nvldr s0, [r0]\nvldr s1, [r0, #256]\nvldmia r2!, {s2}\nvldmia r3!, {s3}\nvmul.f32 s0, s0, s2\n\
                    vstr s1, [r0, #256]\nvstmia r0!, {s0}\nsubs r1, #1\nbne .L1\nbx lr\n";
        assert_eq!(elements(Architecture::Thumbv7em, wanted, text), Ok(2));
        elements(Architecture::Thumbv7em, F32, text).unwrap_err();
        // 16 bits: cos and sin stay f32.
        let wanted = Wanted { size: 2, ..wanted };
        let text = ".L1:\nldrh w5, [x0, w7, uxtw]\nldrh w4, [x0, x6, lsl #1]\nldrh w5, [x0, x7]\nldr s2, [x2], #4\n\
                    ldr s3, [x3], #4\nstrh w4, [x0, x6, lsl #1]\nstrh w5, [x0, x7]\nadd x6, x6, #1\ncbnz x1, .L1\nret\n";
        elements(Architecture::Aarch64, wanted, text).unwrap_err();
        let text = text.replace("ldrh w5, [x0, w7, uxtw]\n", "");
        assert_eq!(elements(Architecture::Aarch64, wanted, &text), Ok(2));
    }
}

//! What instructions of x86-64 do, in Intel's syntax, which says how large an operand in memory is.

use super::assembly::Instruction;
use super::values::{Access, Flow, Place, State, Sum};

const FAMILIES: [[&str; 5]; 8] = [
    ["rax", "eax", "ax", "al", "ah"],
    ["rbx", "ebx", "bx", "bl", "bh"],
    ["rcx", "ecx", "cx", "cl", "ch"],
    ["rdx", "edx", "dx", "dl", "dh"],
    ["rsi", "esi", "si", "sil", ""],
    ["rdi", "edi", "di", "dil", ""],
    ["rbp", "ebp", "bp", "bpl", ""],
    ["rsp", "esp", "sp", "spl", ""],
];

/// The 64-bit register that a name is a part of.
fn general(operand: &str) -> Option<String> {
    if let Some([whole, ..]) = FAMILIES.iter().find(|names| names.contains(&operand)) {
        return Some((*whole).to_owned());
    }
    let number = operand.strip_prefix('r')?.trim_end_matches(['d', 'w', 'b']);
    let known = matches!(number.parse(), Ok(8..=15));
    known.then(|| format!("r{number}"))
}

fn is_whole(operand: &str) -> bool {
    general(operand).is_some_and(|whole| whole == operand)
}

fn size(operand: &str) -> Option<i64> {
    let (name, _) = operand.split_once(" ptr ")?;
    Some(match name {
        "byte" => 1,
        "word" => 2,
        "dword" => 4,
        "qword" => 8,
        "xmmword" => 16,
        "ymmword" => 32,
        "zmmword" => 64,
        _ => return None,
    })
}

/// The sum in brackets; nothing if it is a constant of the program.
fn address(operand: &str, state: &State) -> Option<Sum> {
    let (_, inner) = operand.split_once('[')?;
    let (inner, _) = inner.split_once(']')?;
    let mut sum = Sum::default();
    for part in inner.replace("- ", "+ -").split('+') {
        let part = part.trim();
        let (times, term) = match part.split_once('*') {
            Some((times, term)) => (times.parse().ok()?, term),
            None => (1, part),
        };
        if let Ok(constant) = term.parse::<i64>() {
            sum.constant += constant;
        } else {
            sum = sum.plus(&state.get(&general(term)?), times);
        }
    }
    Some(sum)
}

/// Where control goes.
pub fn flow(instruction: &Instruction) -> Flow {
    let label = instruction.target().starts_with(".L");
    match instruction.mnemonic.as_str() {
        "jmp" if label => Flow::Jump,
        "jmp" | "ret" | "ud2" | "int3" => Flow::Out,
        "call" => Flow::Call,
        name if name.starts_with('j') => Flow::Branch,
        _ => Flow::On,
    }
}

/// Registers that hold addresses of the frame.
pub fn frame<'i>(mut instructions: impl Iterator<Item = &'i Instruction>) -> Vec<String> {
    let mut frame = vec!["rsp".to_owned()];
    if instructions.any(|i| i.text == "mov rbp, rsp" || i.text.starts_with("lea rbp, [rsp")) {
        frame.push("rbp".into());
    }
    frame
}

/// What it reads and writes; registers are what they are after it.
pub fn execute(instruction: &Instruction, state: &mut State) -> Vec<Access> {
    let (name, operands) = (instruction.mnemonic.as_str(), &instruction.operands);
    let starts = |beginnings: &[&str]| beginnings.iter().any(|&b| name.starts_with(b));
    if starts(&["prefetch", "nop", "j"]) {
        return Vec::new();
    }
    let first = operands.first().map_or("", String::as_str);
    let second = operands.get(1).map_or("", String::as_str);
    if name == "lea" {
        let value = address(second, state).filter(|_| is_whole(first));
        if let Some(whole) = general(first) {
            state.set(&whole, value);
        }
        return Vec::new();
    }
    let only_reads = starts(&[
        "cmp", "test", "bt", "ucomi", "vucomi", "comi", "vcomi", "vptest",
    ]);
    let vector = operands.iter().any(|operand| {
        let end = operand.trim_start_matches(['x', 'y', 'z']);
        end.strip_prefix("mm")
            .is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
    });
    let mut accesses = Vec::new();
    let mut slot = None;
    for (index, operand) in operands.iter().enumerate() {
        let Some(bytes) = size(operand) else {
            continue;
        };
        let place = match address(operand, state) {
            Some(sum) => {
                let place = state.place(sum.clone());
                if place == Place::Stack {
                    slot = Some(sum);
                }
                place
            }
            None => Place::Constant,
        };
        let writes = index == 0 && !only_reads && name != "push" && operands.len() > 1
            || index == 0 && (starts(&["set", "inc", "dec", "neg", "not", "pop"]));
        let also_reads = starts(&[
            "add", "sub", "and", "or", "xor", "inc", "dec", "neg", "not", "sh", "sa", "adc", "sbb",
            "ro",
        ]);
        for write in [false, true] {
            if if write { writes } else { !writes || also_reads } {
                accesses.push(Access {
                    write,
                    bytes,
                    vector,
                    place: place.clone(),
                });
            }
        }
    }
    // The value of an operand, if it is known.
    let value = |operand: &str| -> Option<Sum> {
        if let Ok(constant) = operand.parse() {
            Some(Sum::constant(constant))
        } else if is_whole(operand) {
            Some(state.get(operand))
        } else if size(operand) == Some(8) {
            slot.as_ref().map(|slot| state.slot(slot))
        } else {
            None
        }
    };
    let whole = general(first);
    let old = whole.as_ref().map(|whole| state.get(whole));
    let new = match name {
        "mov" | "movabs" => value(second),
        "add" => value(second).and_then(|v| Some(old?.plus(&v, 1))),
        "sub" => value(second).and_then(|v| Some(old?.plus(&v, -1))),
        "inc" => old.map(|old| old.plus(&Sum::constant(1), 1)),
        "dec" => old.map(|old| old.plus(&Sum::constant(1), -1)),
        "shl" => match value(second) {
            Some(by) if by.terms.is_empty() && by.constant < 32 => {
                old.map(|old| Sum::default().plus(&old, 1 << by.constant))
            }
            _ => None,
        },
        "xor" if first == second => Some(Sum::default()),
        _ => None,
    };
    match (whole, slot.clone()) {
        (Some(whole), _) if !only_reads && name != "push" => {
            // Half a register: what becomes of the whole is not followed, but for a zero, which fills it.
            let known = is_whole(first) || name == "xor";
            state.set(&whole, new.filter(|_| known));
        }
        (None, Some(slot)) if accesses.iter().any(|access| access.write) => {
            let stored = if name == "mov" { value(second) } else { None };
            state.set_slot(slot, stored);
        }
        _ => {}
    }
    if starts(&["mul", "div", "idiv", "cqo", "cdq"]) || name == "imul" && operands.len() == 1 {
        state.set("rax", None);
        state.set("rdx", None);
    }
    if name == "xchg"
        && let Some(whole) = general(second)
    {
        state.set(&whole, None);
    }
    accesses
}

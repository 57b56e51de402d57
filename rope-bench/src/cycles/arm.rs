//! What instructions of AArch64 and of Thumb do.

use super::assembly::{Instruction, operands};
use super::values::{Access, Flow, Place, State, Sum};

const CONDITIONS: [&str; 16] = [
    "eq", "ne", "cs", "hs", "cc", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le",
];

/// A general register, by the name of the whole; the zero register is none.
fn general(operand: &str) -> Option<String> {
    if matches!(operand, "sp" | "lr") {
        return Some(operand.to_owned());
    }
    let number = operand.strip_prefix(['x', 'w', 'r'])?;
    number.parse::<u8>().ok()?;
    Some(match operand.as_bytes()[0] {
        b'w' => format!("x{number}"),
        _ => operand.to_owned(),
    })
}

fn is_whole(operand: &str) -> bool {
    general(operand).is_some_and(|whole| whole == operand)
}

fn immediate(operand: &str) -> Option<i64> {
    let digits = operand.strip_prefix('#')?;
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, digits),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    value.ok().map(|value| sign * value)
}

/// The sum of a base and an offset, `x1`, `#16` or `x1, lsl #2`.
fn sum(base: &str, offset: &[String], state: &State) -> Option<Sum> {
    let base = state.get(&general(base).filter(|whole| whole == base)?);
    Some(base.plus(&shifted(offset, state)?, 1))
}

fn shifted(offset: &[String], state: &State) -> Option<Sum> {
    let value = |operand: &str| match immediate(operand) {
        Some(constant) => Some(Sum::constant(constant)),
        None if matches!(operand, "xzr" | "wzr") => Some(Sum::default()),
        None => Some(state.get(&general(operand).filter(|_| is_whole(operand))?)),
    };
    match offset {
        [] => Some(Sum::default()),
        [one] => value(one),
        [one, shift] => {
            let by = immediate(shift.strip_prefix("lsl")?.trim())?;
            Some(Sum::default().plus(&value(one)?, 1 << by))
        }
        _ => None,
    }
}

/// Bytes of a register, or of a list of registers, in memory; and whether they are of the vector unit.
fn width(operand: &str, name: &str) -> (i64, bool) {
    if let Some(list) = operand.strip_prefix('{') {
        let (list, lane) = list.split_once('}').unwrap_or((list, ""));
        let mut bytes = 0;
        let mut vector = false;
        for register in operands(list) {
            let times = match register.split_once('-') {
                Some((from, to)) => {
                    let number = |r: &str| r.trim()[1..].parse::<i64>().unwrap_or(0);
                    number(to) - number(from) + 1
                }
                None => 1,
            };
            let (one, of_vector) = width(register.split('-').next().unwrap_or("").trim(), name);
            // One lane of each, or all.
            let one = match register.rsplit_once('.').map(|(_, lanes)| lanes) {
                Some(lanes) if !lane.is_empty() || name.ends_with('r') => {
                    match &lanes[lanes.len() - 1..] {
                        "d" => 8,
                        "s" => 4,
                        "h" => 2,
                        _ => 1,
                    }
                }
                _ => one,
            };
            bytes += times * one;
            vector |= of_vector;
        }
        return (bytes, vector);
    }
    match operand.as_bytes().first() {
        Some(b'q') => (16, true),
        Some(b'd') => (8, true),
        Some(b's') if operand != "sp" => (4, true),
        Some(b'h') => (2, true),
        Some(b'b') => (1, true),
        Some(b'v') => {
            let full = ["16b", "8h", "4s", "2d"];
            let full = full.iter().any(|lanes| operand.ends_with(lanes));
            (if full { 16 } else { 8 }, true)
        }
        Some(b'x') => (8, false),
        _ => (4, false),
    }
}

/// Thumb's instructions have a size in their names at times.
fn plain(name: &str) -> &str {
    name.trim_end_matches(".w").trim_end_matches(".n")
}

/// Where control goes.
pub fn flow(instruction: &Instruction) -> Flow {
    let label = instruction.target().starts_with(".L");
    let name = plain(&instruction.mnemonic);
    let to = |flow| if label { flow } else { Flow::Out };
    match name {
        "b" => to(Flow::Jump),
        "cbz" | "cbnz" | "tbz" | "tbnz" => to(Flow::Branch),
        "bl" | "blr" | "blx" => Flow::Call,
        "br" | "bx" | "ret" | "brk" | "udf" | "tbb" | "tbh" => Flow::Out,
        "pop" | "ldm" | "ldmia" if instruction.text.contains("pc") => Flow::Out,
        _ => match name.strip_prefix('b').map(|c| c.trim_start_matches('.')) {
            Some(condition) if CONDITIONS.contains(&condition) => to(Flow::Branch),
            _ => Flow::On,
        },
    }
}

/// Registers that hold addresses of the frame.
pub fn frame<'i>(instructions: impl Iterator<Item = &'i Instruction>) -> Vec<String> {
    let mut frame = vec!["sp".to_owned()];
    for Instruction {
        mnemonic, operands, ..
    } in instructions
    {
        if let [to, from, ..] = operands.as_slice()
            && matches!(plain(mnemonic), "mov" | "add")
            && matches!(to.as_str(), "x29" | "r7" | "r11")
            && from == "sp"
            && !frame.contains(to)
        {
            frame.push(to.clone());
        }
    }
    frame
}

/// What it reads and writes; registers are what they are after it.
pub fn execute(instruction: &Instruction, state: &mut State) -> Vec<Access> {
    let (name, all) = (plain(&instruction.mnemonic), &instruction.operands);
    let starts = |beginnings: &[&str]| beginnings.iter().any(|&b| name.starts_with(b));
    let load = starts(&[
        "ldr", "ldu", "ldp", "ldn", "ld1", "ld2", "ld3", "ld4", "vldr", "vldm", "ldm",
    ]);
    let store = starts(&[
        "str", "stu", "stp", "stn", "st1", "st2", "st3", "st4", "vstr", "vstm", "stm",
    ]);
    if load || store {
        return moved(instruction, store, state);
    }
    if starts(&[
        "cmp", "cmn", "tst", "teq", "ccmp", "ccmn", "prf", "pld", "nop", "it", "vcmp", "fcmp",
    ]) || flow(instruction) != Flow::On
    {
        return Vec::new();
    }
    let mut made = all.iter().map_while(|operand| general(operand));
    let Some(to) = made.next() else {
        return Vec::new();
    };
    let value = match (name, all.as_slice()) {
        ("mov" | "movs", [_, from]) => shifted(std::slice::from_ref(from), state),
        ("add" | "adds" | "addw", [to, by]) => sum(to, std::slice::from_ref(by), state),
        ("add" | "adds" | "addw", [_, base, offset @ ..]) => sum(base, offset, state),
        ("sub" | "subs" | "subw", [to, by]) => less(to, std::slice::from_ref(by), state),
        ("sub" | "subs" | "subw", [_, base, offset @ ..]) => less(base, offset, state),
        ("lsl" | "lsls", [_, from, by]) => {
            let by = immediate(by).filter(|by| (0..32).contains(by));
            by.and_then(|by| {
                Some(Sum::default().plus(&shifted(std::slice::from_ref(from), state)?, 1 << by))
            })
        }
        _ => None,
    };
    state.set(&to, value.filter(|_| is_whole(&all[0])));
    if starts(&["umull", "smull", "umlal", "smlal", "umaal"])
        && all.len() == 4
        && let Some(other) = general(&all[1])
    {
        state.set(&other, None);
    }
    Vec::new()
}

fn less(base: &str, offset: &[String], state: &State) -> Option<Sum> {
    let base = state.get(&general(base).filter(|whole| whole == base)?);
    Some(base.plus(&shifted(offset, state)?, -1))
}

/// Loads and stores.
fn moved(instruction: &Instruction, write: bool, state: &mut State) -> Vec<Access> {
    let (name, all) = (plain(&instruction.mnemonic), &instruction.operands);
    let multiple = name.starts_with("vldm")
        || name.starts_with("vstm")
        || name.starts_with("ldm")
        || name.starts_with("stm");
    // Base, offset that is added before, what the base becomes; the registers that are moved.
    let at = all.iter().position(|operand| operand.starts_with('['));
    let (registers, base, offset, after) = match at {
        Some(at) => {
            let inside = all[at].trim_start_matches('[').trim_end_matches('!');
            let inside = operands(inside.trim_end_matches(']'));
            let Some((base, offset)) = inside.split_first() else {
                return Vec::new();
            };
            if all[at].ends_with('!') {
                (
                    &all[..at],
                    base.clone(),
                    offset.to_vec(),
                    Some(offset.to_vec()),
                )
            } else {
                let after = Some(all[at + 1..].to_vec()).filter(|after| !after.is_empty());
                (&all[..at], base.clone(), offset.to_vec(), after)
            }
        }
        None if multiple => {
            let base = all[0].trim_end_matches('!').to_owned();
            let bytes: i64 = all[1..].iter().map(|list| width(list, name).0).sum();
            let after = all[0].ends_with('!').then(|| vec![format!("#{bytes}")]);
            // `db`: the list lies below the base, which goes down first.
            if name.ends_with("db") {
                let offset = vec![format!("#{}", -bytes)];
                let after = after.map(|_| offset.clone());
                (&all[1..], base, offset, after)
            } else {
                (&all[1..], base, Vec::new(), after)
            }
        }
        // A label: a constant beside the code.
        None => (&all[..all.len().min(1)], String::new(), Vec::new(), None),
    };
    let narrow = match name.trim_start_matches(['l', 'd', 's', 't', 'r', 'u', 'a']) {
        "h" => Some(2),
        "b" => Some(1),
        "w" if name.starts_with("ldrsw") || name.starts_with("ldursw") => Some(4),
        _ => None,
    };
    let (mut bytes, mut vector) = (0, false);
    for register in registers {
        let (one, of_vector) = width(register, name);
        bytes += narrow.filter(|_| !of_vector).unwrap_or(one);
        vector |= of_vector;
    }
    let constant = base.is_empty() || instruction.text.contains(":lo12:");
    let address = sum(&base, &offset, state).filter(|_| !constant);
    let place = match &address {
        Some(address) => state.place(address.clone()),
        None if constant => Place::Constant,
        // Not followed: an address that nothing else has.
        None => {
            state.set("nowhere", None);
            Place::Data(state.get("nowhere"))
        }
    };
    let after = after.map(|after| sum(&base, &after, state));
    let slot = address.filter(|_| place == Place::Stack);
    if write {
        if let Some(slot) = slot {
            let mut offset = 0;
            for register in registers {
                let value = is_whole(register).then(|| state.get(register));
                let slot = slot.clone().plus(&Sum::constant(offset), 1);
                state.set_slot(slot, value);
                offset += width(register, name).0;
            }
        }
    } else {
        let mut offset = 0;
        for list in registers {
            for register in operands(list.trim_matches(['{', '}'])) {
                let value = slot
                    .as_ref()
                    .filter(|_| is_whole(&register))
                    .map(|slot| state.slot(&slot.clone().plus(&Sum::constant(offset), 1)));
                offset += width(&register, name).0;
                if let Some(whole) = general(&register) {
                    state.set(&whole, value);
                }
            }
        }
    }
    if let Some(after) = after {
        state.set(&base, after);
    }
    vec![Access {
        write,
        bytes,
        vector,
        place,
    }]
}

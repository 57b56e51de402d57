//! Assembly as compilers write it: functions, labels, instructions.

use std::collections::HashMap;

/// An instruction, as text and taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// As it was written.
    pub text: String,
    /// Its name, in lower case.
    pub mnemonic: String,
    /// What follows, cut at commas outside of brackets.
    pub operands: Vec<String>,
}

impl Instruction {
    fn parse(text: &str) -> Self {
        let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        Instruction {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            mnemonic: mnemonic.to_lowercase(),
            operands: operands(rest),
        }
    }

    /// The last operand, which is where branches go.
    pub fn target(&self) -> &str {
        self.operands.last().map_or("", String::as_str)
    }
}

/// A list, cut at commas outside of brackets.
pub fn operands(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in list.trim().chars() {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let parts = parts.iter().map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

/// A line of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A place to go to.
    Label(String),
    /// Something to do.
    Instruction(Instruction),
}

/// A function: its name as it is read, and its lines.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Demangled.
    pub name: String,
    /// In their order.
    pub lines: Vec<Line>,
}

/// All functions of a file, but those without an instruction. A name that was set equal to another has the other's
/// lines.
pub fn functions(text: &str) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut aliases: Vec<(&str, &str)> = Vec::new();
    for line in text.lines() {
        let line = uncommented(line).trim();
        if let Some(label) = line.strip_suffix(':') {
            let local = label.starts_with(".L") || label.bytes().all(|b| b.is_ascii_digit());
            if !local {
                places.insert(label, functions.len());
                functions.push(Function {
                    name: demangled(label),
                    lines: Vec::new(),
                });
            } else if let Some(function) = functions.last_mut() {
                function.lines.push(Line::Label(label.to_owned()));
            }
        } else if let Some(pair) = line.strip_prefix(".set") {
            aliases.extend(pair.trim().split_once(',').map(|(a, b)| (a, b.trim())));
        } else if !line.is_empty() && !line.starts_with('.') {
            // Data are directives, so what is left is an instruction.
            if let Some(function) = functions.last_mut() {
                let instruction = Instruction::parse(line);
                function.lines.push(Line::Instruction(instruction));
            }
        }
    }
    for (alias, of) in aliases {
        if let Some(&place) = places.get(of) {
            functions.push(Function {
                name: demangled(alias),
                lines: functions[place].lines.clone(),
            });
        }
    }
    let instruction = |line: &Line| matches!(line, Line::Instruction(_));
    functions.retain(|function| function.lines.iter().any(instruction));
    functions
}

/// Without the comments that compilers write: `#` on x86 (an ARM immediate follows its `#` at once), `//` and `@` on
/// ARM.
fn uncommented(line: &str) -> &str {
    let ends = ["# ", "#\t", "//", "@ ", "\t#APP", "\t#NO_APP"];
    let end = ends.iter().filter_map(|&mark| line.find(mark)).min();
    &line[..end.unwrap_or(line.len())]
}

fn demangled(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_labels_and_instructions() {
        let text = "\t.globl\t_RNvCsb_4rope4turn\n_RNvCsb_4rope4turn:\n\t.cfi_startproc\n\tmov\trax, rdi  # copied\n.LBB0_1:\n\t\
                    vmovups\tymmword ptr [rax + 4*rcx], ymm0\n\tjne\t.LBB0_1\n\tret\n.set twin, _RNvCsb_4rope4turn\n\
                    data:\n\t.long\t1\n";
        let functions = functions(text);
        let names: Vec<_> = functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["rope::turn", "twin"]);
        assert_eq!(functions[0].lines, functions[1].lines);
        assert_eq!(functions[0].lines.len(), 5);
        assert_eq!(functions[0].lines[1], Line::Label(".LBB0_1".into()));
        let Line::Instruction(store) = &functions[0].lines[2] else {
            panic!("{:?}", functions[0].lines[2]);
        };
        assert_eq!(store.mnemonic, "vmovups");
        assert_eq!(store.operands, ["ymmword ptr [rax + 4*rcx]", "ymm0"]);
    }

    #[test]
    fn lists_in_brackets_are_one_operand() {
        assert_eq!(
            operands("{ v0.8h, v1.8h }, [x0], #32"),
            ["{ v0.8h, v1.8h }", "[x0]", "#32"]
        );
        assert_eq!(
            uncommented("\tadd\tx0, x1, #16 // =16"),
            "\tadd\tx0, x1, #16 "
        );
        assert_eq!(
            uncommented("\tadds\tr0, #1  @ encoding"),
            "\tadds\tr0, #1  "
        );
    }
}

//! Golden values as constants: for the build scripts of the firmwares, which lie beside this one's folder.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A position of both files.
const POSITION: usize = 131_071;
const HEAD_DIM: usize = 128;

/// The text of the constants.
pub fn constants() -> String {
    let golden = Path::new("../golden");
    let tables = read(&golden.join("tables/llama3_1_8b.txt"));
    let apply = read(&golden.join("apply/llama3_1_8b.txt"));
    let token = find(&apply, "positions_axis0 ")
        .split(' ')
        .position(|position| position == POSITION.to_string())
        .expect("the position");
    let (pairs, heads) = (HEAD_DIM / 2, 2);
    let row = token * pairs..(token + 1) * pairs;
    let queries = token * heads * HEAD_DIM..(token + 1) * heads * HEAD_DIM;

    let mut text = format!("/// A position.\npub const POSITION: u32 = {POSITION};\n");
    let mut constant = |name: &str, what: &str, words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("0x{word}")).collect();
        let (len, words) = (words.len(), words.join(", "));
        writeln!(
            text,
            "/// {what}\npub static {name}: [u32; {len}] = [{words}];"
        )
        .expect("a string");
    };
    let all = |text, key: &str| -> Vec<&str> { find(text, key).split(' ').collect() };
    constant(
        "COS",
        "cos of the exact angles, rounded once.",
        &all(&tables, &format!("cos_cr {POSITION} ")),
    );
    constant("SIN", "sin.", &all(&tables, &format!("sin_cr {POSITION} ")));
    constant(
        "COS_GIVEN",
        "cos as Hugging Face's code has it.",
        &all(&apply, "cos_hf_f32 ")[row.clone()],
    );
    constant("SIN_GIVEN", "sin.", &all(&apply, "sin_hf_f32 ")[row]);
    constant(
        "QUERIES",
        "Heads.",
        &all(&apply, "q_in_f32 ")[queries.clone()],
    );
    constant(
        "ROTATED",
        "The heads rotated by that cos and sin.",
        &all(&apply, "q_hf_f32 ")[queries],
    );
    println!("cargo:rerun-if-changed=../firmware/golden.rs");
    text
}

fn read(path: &Path) -> String {
    println!("cargo:rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text after a key.
fn find<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_else(|| panic!("no {key}"))
}

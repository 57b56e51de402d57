//! Places the memory map in the linker's search path and writes golden values as constants.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A position that both files have.
const POSITION: usize = 131_071;
const HEAD_DIM: usize = 128;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::copy("memory.x", out.join("memory.x")).expect("a copy");
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    // Flash has no pages, and sections need no alignment to them.
    println!("cargo:rustc-link-arg-bins=--nmagic");

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
    fs::write(out.join("golden.rs"), text).expect("a file");
    println!("cargo:rerun-if-changed=build.rs\ncargo:rerun-if-changed=memory.x");
}

fn read(path: &Path) -> String {
    println!("cargo:rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text after a key.
fn find<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_else(|| panic!("no {key}"))
}

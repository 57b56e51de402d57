//! No intrinsic stays a function call in optimized code: such a call costs more than the rotation.

use std::path::Path;
use std::process::Command;

use rope_tests::{Source, bodies};

/// Reads this program itself, which has the kernel of every backend, element type and pairing.
#[test]
#[cfg_attr(debug_assertions, ignore = "looks at optimized code")]
fn intrinsics_are_inlined() {
    // Functions that are never called are not in the program.
    bodies::rotate(&mut Source::random("intrinsics_are_inlined"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("inlined.sh");
    let this = std::env::current_exe().expect("a path");
    let output = Command::new("sh")
        .arg(script)
        .arg(this)
        .output()
        .expect("a shell");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

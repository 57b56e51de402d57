//! No un-inlined intrinsic in optimized code: such a call costs more than the rotation.

use std::path::Path;
use std::process::Command;

use rope_tests::{Source, bodies};

/// Looks at this very binary, which holds the kernel of every backend, element and pairing.
#[test]
#[cfg_attr(debug_assertions, ignore = "looks at optimized code")]
fn intrinsics_are_inlined() {
    // What is never called is not there.
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

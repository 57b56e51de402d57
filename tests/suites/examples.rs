//! The examples of rope-core and rope-models, as `cargo run --example` runs them: each asserts what it claims. They are
//! modules of this suite, so that no other program is linked for them.

macro_rules! examples {
    ($($(#[$attribute:meta])* $name:ident: $path:literal;)*) => {
        $(
            $(#[$attribute])*
            #[path = $path]
            mod $name;

            $(#[$attribute])*
            #[test]
            fn $name() {
                $name::main().expect($path);
            }
        )*

        const ALL: &[&str] = &[$($path),*];
    };
}

examples! {
    given_rows: "../../rope-core/examples/given_rows.rs";
    kv_cache: "../../rope-core/examples/kv_cache.rs";
    learn_frequencies: "../../rope-core/examples/learn_frequencies.rs";
    one_pass: "../../rope-core/examples/one_pass.rs";
    packed_qkv: "../../rope-core/examples/packed_qkv.rs";
    several_axes: "../../rope-core/examples/several_axes.rs";
    #[cfg(not(target_family = "wasm"))]
    threads: "../../rope-core/examples/threads.rs";
    training: "../../rope-core/examples/training.rs";
    config: "../../rope-core/models/examples/config.rs";
    deepseek_mla: "../../rope-core/models/examples/deepseek_mla.rs";
    explain: "../../rope-core/models/examples/explain.rs";
}

/// A module has to be named above, so the list may lag behind the folder.
#[test]
fn all_are_here() {
    let mut files = Vec::new();
    for folder in [
        "../../rope-core/examples",
        "../../rope-core/models/examples",
    ] {
        let path = format!("{}/suites/{folder}", env!("CARGO_MANIFEST_DIR"));
        for file in std::fs::read_dir(path).expect("the examples") {
            let name = file.expect("a file").file_name().into_string();
            files.push(format!("{folder}/{}", name.expect("a name")));
        }
    }
    files.sort();
    assert_eq!(files, ALL);
}

//! The examples of rope-core, as `cargo run --example` runs them: each asserts what it claims. They are modules of this
//! suite, so that no other program is linked for them.

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
    config: "../../rope-core/examples/config.rs";
    deepseek_mla: "../../rope-core/examples/deepseek_mla.rs";
    explain: "../../rope-core/examples/explain.rs";
    given_rows: "../../rope-core/examples/given_rows.rs";
    kv_cache: "../../rope-core/examples/kv_cache.rs";
    one_pass: "../../rope-core/examples/one_pass.rs";
    packed_qkv: "../../rope-core/examples/packed_qkv.rs";
    several_axes: "../../rope-core/examples/several_axes.rs";
    #[cfg(not(target_family = "wasm"))]
    threads: "../../rope-core/examples/threads.rs";
    training: "../../rope-core/examples/training.rs";
}

/// A module has to be named above, so the list may lag behind the folder.
#[test]
fn all_are_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../rope-core/examples");
    let files = std::fs::read_dir(folder).expect("the examples");
    let mut files: Vec<String> = files
        .map(|file| file.expect("a file").file_name().into_string())
        .map(|name| format!("../../rope-core/examples/{}", name.expect("a name")))
        .collect();
    files.sort();
    assert_eq!(files, ALL);
}

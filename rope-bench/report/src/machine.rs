//! The machine and the build that the numbers belong to.

use serde::{Deserialize, Serialize};

/// The machine and the build.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microarchitecture: Option<String>,
    pub architecture: String,
    pub system: String,
    pub cores: usize,
    pub features: Vec<String>,
    pub caches: Vec<String>,
    pub compiler: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub c_compiler: String,
    pub target: String,
    pub flags: String,
    /// The commit.
    pub revision: String,
    pub backends: Vec<String>,
    pub pinned: bool,
    /// The emulator of the CPU, if there is one: times then mean nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
}

impl Machine {
    /// Its usual name: the emulator, the microarchitecture, or the name that the CPU reports.
    pub fn name(&self) -> &str {
        let name = self.emulator.as_ref().or(self.microarchitecture.as_ref());
        name.unwrap_or(&self.cpu)
    }

    /// The folder of its records, in lower case with dashes: its name, after the architecture if it is emulated.
    pub fn folder(&self) -> String {
        let is_emulated = self.emulator.is_some();
        let architecture = if is_emulated { &*self.architecture } else { "" };
        let name = format!("{architecture} {}", self.name()).to_lowercase();
        let words = name.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join("-")
    }
}

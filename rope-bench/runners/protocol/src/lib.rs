//! The common part of runners in Rust: reads the request, times the calls and answers. `../PROTOCOL.md` has the rules.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The input line: the definition of a call, and of its measurement.
#[derive(Deserialize)]
struct Line {
    protocol: u32,
    rounds: usize,
    batch_ns: u64,
    duration_ns: u64,
    input: PathBuf,
    output: PathBuf,
    #[serde(flatten)]
    request: Either,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Rotate(Request),
    Quantize(Quantization),
}

/// Rows to quantize: the keys of the request.
#[derive(Clone, Debug, Deserialize)]
pub struct Quantization {
    pub quantizer: String,
    pub format: String,
    pub rows: usize,
    pub row: usize,
}

/// A rotation: the keys of the request.
#[derive(Clone, Debug, Deserialize)]
pub struct Request {
    pub formulation: String,
    pub element: String,
    pub layout: String,
    pub batch: usize,
    pub tokens: usize,
    pub heads: Vec<usize>,
    pub head_dim: usize,
    pub rotary_dim: usize,
    pub base: f64,
    pub positions: Vec<Vec<u32>>,
    pub threads: usize,
}

/// Q or K.
#[derive(Clone, Debug)]
pub struct Part {
    /// The number of heads.
    pub heads: usize,
    /// The extents, in the order of memory.
    pub shape: [usize; 4],
    /// The elements, in the machine's byte order.
    pub bytes: Vec<u8>,
}

/// A prepared call.
pub trait Prepared {
    /// Runs one call, as users make it, on Q and K.
    ///
    /// # Errors
    ///
    /// The library's errors.
    fn call(&mut self) -> Result<()>;

    /// Returns the result of the last call: Q before K, in the layout of the input, or the blocks of all rows.
    ///
    /// # Errors
    ///
    /// The library's errors.
    fn values(&self) -> Result<Vec<u8>>;
}

impl Request {
    fn parts(&self, input: &[u8]) -> Result<Vec<Part>> {
        let size = if self.element == "f32" { 4 } else { 2 };
        let mut rest = input;
        let parts = self.heads.iter().map(|&heads| {
            let (outer, inner) = match self.layout.as_str() {
                "bshd" => (self.tokens, heads),
                _ => (heads, self.tokens),
            };
            let shape = [self.batch, outer, inner, self.head_dim];
            let len = shape.iter().product::<usize>() * size;
            let (bytes, after) = rest.split_at_checked(len).context("the input is short")?;
            rest = after;
            Ok(Part {
                heads,
                shape,
                bytes: bytes.to_vec(),
            })
        });
        parts.collect()
    }
}

/// Quantizes rows, given as the bytes of f32.
pub type Quantize = fn(&Quantization, Vec<u8>) -> Result<Box<dyn Prepared>>;

/// Reads the request from the standard input, and answers. `package` is the library's name in `lock`, a Cargo.lock with
/// its version. `rotate` prepares everything that a model makes once; not all libraries `quantize`.
///
/// # Errors
///
/// The request does not follow this protocol, or `rotate`, `quantize` or the prepared call fails.
pub fn answer<R: Prepared + 'static>(
    package: &str,
    lock: &str,
    rotate: fn(&Request, Vec<Part>) -> Result<R>,
    quantize: Option<Quantize>,
) -> Result<()> {
    let line: Line = serde_json::from_str(&io::read_to_string(io::stdin())?)?;
    ensure!(
        line.protocol == 1,
        "protocol {}: this runner speaks 1",
        line.protocol
    );
    let input = fs::read(&line.input).with_context(|| line.input.display().to_string())?;
    let begin = Instant::now();
    let mut prepared: Box<dyn Prepared> = match &line.request {
        Either::Rotate(request) => Box::new(rotate(request, request.parts(&input)?)?),
        Either::Quantize(rows) => quantize.context("this runner quantizes nothing")?(rows, input)?,
    };
    let preparation = begin.elapsed().as_nanos() as f64;
    prepared.call()?;
    fs::write(&line.output, prepared.values()?)?;
    let samples = measure(&line, || prepared.call())?;
    let version = version(package, lock).context("no version in the lock file")?;
    let line = serde_json::json!({
        "version": format!("{package} {version}"), "preparation": preparation, "samples": samples,
    });
    println!("{line}");
    Ok(())
}

fn version<'a>(package: &str, lock: &'a str) -> Option<&'a str> {
    let (_, entry) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    Some(entry.split_once('"')?.0)
}

/// Returns the nanoseconds of a call in each batch.
fn measure(line: &Line, mut call: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut batch = |calls: u32| {
        let begin = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        anyhow::Ok(begin.elapsed().as_nanos() as u64)
    };
    let mut calls = 1;
    while batch(calls)? < line.batch_ns {
        calls *= 2;
    }
    let (mut samples, begin) = (Vec::new(), Instant::now());
    while samples.len() < line.rounds || (begin.elapsed().as_nanos() as u64) < line.duration_ns {
        samples.push(batch(calls)? as f64 / f64::from(calls));
    }
    Ok(samples)
}

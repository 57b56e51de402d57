//! Text without `core::fmt`, which would be larger than all the rest.

use cortex_m_semihosting::hio;

/// A line that is being written to the emulator's output.
pub struct Line(Option<hio::HostStream>);

impl Line {
    /// Begins a line.
    pub fn new(text: &str) -> Self {
        Line(hio::hstdout().ok()).text(text)
    }

    /// Goes on.
    pub fn text(mut self, text: &str) -> Self {
        if let Some(out) = &mut self.0 {
            // Nobody to tell if it fails.
            let _ = out.write_all(text.as_bytes());
        }
        self
    }

    /// Goes on with a number in decimal.
    pub fn number(self, mut number: u32) -> Self {
        let mut digits = [0; 10];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.text(str::from_utf8(&digits[first..]).unwrap_or_default())
    }

    /// Ends it.
    pub fn end(self) {
        self.text("\n");
    }
}

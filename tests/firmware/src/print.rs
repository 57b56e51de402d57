//! Output without `core::fmt`, which would be larger than the rest of the program.

use cortex_m_semihosting::hio;

/// A line under construction on the emulator's output.
pub struct Line(Option<hio::HostStream>);

impl Line {
    /// Begins a line.
    pub fn new(text: &str) -> Self {
        Line(hio::hstdout().ok()).text(text)
    }

    /// Appends a text.
    pub fn text(mut self, text: &str) -> Self {
        if let Some(out) = &mut self.0 {
            // A failure cannot be reported.
            let _ = out.write_all(text.as_bytes());
        }
        self
    }

    /// Appends a number in decimal.
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

    /// Ends the line.
    pub fn end(self) {
        self.text("\n");
    }
}

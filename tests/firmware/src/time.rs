//! Instructions, counted by SysTick: under `qemu -icount shift=0` an instruction takes a nanosecond.

use cortex_m::Peripherals;
use cortex_m::asm;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;

/// A clock whose ticks are several instructions long.
pub struct Clock {
    /// Instructions in 256 ticks.
    scale: u32,
}

impl Clock {
    /// Starts the clock and measures the length of a tick with a loop of known length.
    pub fn new() -> Option<Self> {
        let mut timer = Peripherals::take()?.SYST;
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(0x00ff_ffff);
        timer.clear_current();
        timer.enable_counter();
        // Two instructions per iteration, and a few more.
        const LOOP: u32 = 4_000_000;
        let ticks = ticks(|| asm::delay(LOOP));
        let scale = (u64::from(LOOP) * 256 + u64::from(ticks) / 2) / u64::from(ticks.max(1));
        Some(Clock {
            scale: u32::try_from(scale).ok()?,
        })
    }

    /// Returns the instructions of one call, averaged over about as many calls as a tick has instructions.
    pub fn measure(&self, mut work: impl FnMut()) -> u32 {
        const TIMES: u32 = 40;
        let ticks = ticks(|| {
            for _ in 0..TIMES {
                work();
            }
        });
        (u64::from(ticks) * u64::from(self.scale) / u64::from(256 * TIMES)) as u32
    }
}

fn ticks(work: impl FnOnce()) -> u32 {
    let before = SYST::get_current();
    work();
    // The counter has 24 bits and counts down.
    before.wrapping_sub(SYST::get_current()) & 0x00ff_ffff
}

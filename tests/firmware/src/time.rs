//! Instructions, counted by SysTick: under `qemu -icount shift=0` an instruction takes a nanosecond.

use cortex_m::Peripherals;
use cortex_m::asm;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;

/// A clock whose tick is some instructions long.
pub struct Clock {
    /// Instructions in 256 ticks.
    scale: u32,
}

impl Clock {
    /// Starts it, and finds out how long a tick is, from a loop of known length.
    pub fn new() -> Option<Self> {
        let mut timer = Peripherals::take()?.SYST;
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(0x00ff_ffff);
        timer.clear_current();
        timer.enable_counter();
        // Two instructions for every two that are asked for, and a few more.
        const LOOP: u32 = 4_000_000;
        let ticks = ticks(|| asm::delay(LOOP));
        let scale = (u64::from(LOOP) * 256 + u64::from(ticks) / 2) / u64::from(ticks.max(1));
        Some(Clock {
            scale: u32::try_from(scale).ok()?,
        })
    }

    /// How many instructions it takes, when it is done as often as ticks are long.
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
    // It counts down, in 24 bits.
    before.wrapping_sub(SYST::get_current()) & 0x00ff_ffff
}

//! A team of threads, each bound to a core of its own.

use std::hint::black_box;

use anyhow::{Context, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::measure::machine;

/// Threads that share work.
#[derive(Debug)]
pub struct Team {
    pool: Option<ThreadPool>,
    threads: usize,
}

impl Team {
    /// Creates a team of `threads` threads. A team of one starts none: the work stays on the calling thread.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = (threads > 1).then(|| {
            let builder = ThreadPoolBuilder::new().num_threads(threads);
            let pool = builder.start_handler(machine::pin_to).build();
            pool.with_context(|| format!("cannot start {threads} threads"))
        });
        let (pool, threads) = (pool.transpose()?, threads.max(1));
        Ok(Team { pool, threads })
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs a function on every item, `times` times, and waits for all each time. One of the threads distributes the
    /// items and runs the first itself: it wakes the others, and no thread is woken only to distribute.
    pub fn each<T: Send>(&self, items: &mut [T], times: usize, f: impl Fn(&mut T) + Sync) {
        let Some(pool) = &self.pool else {
            for _ in 0..times {
                items.iter_mut().for_each(&f);
            }
            return;
        };
        pool.install(|| {
            for _ in 0..times {
                let mut items = black_box(&mut *items).iter_mut();
                let own = items.next();
                rayon::in_place_scope(|scope| {
                    for item in items {
                        let f = &f;
                        scope.spawn(move |_| f(item));
                    }
                    own.map(&f)
                });
            }
        });
    }

    /// Runs code that shares its work through rayon on the threads of this team.
    pub fn within<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(f),
            None => f(),
        }
    }
}

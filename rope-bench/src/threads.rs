//! A team of threads, each bound to a core of its own.

use anyhow::{Context, Result};

use crate::machine;

/// Threads that share work.
#[derive(Debug)]
pub struct Team {
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

impl Team {
    /// So many threads. One: the work stays where it is.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = (threads > 1).then(|| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
            builder
                .start_handler(machine::pin_to)
                .build()
                .with_context(|| format!("cannot start {threads} threads"))
        });
        Ok(Team {
            pool: pool.transpose()?,
            threads: threads.max(1),
        })
    }

    /// How many they are.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Does something to every item, and waits for all.
    pub fn each<T: Send>(&self, items: &mut [T], f: impl Fn(&mut T) + Sync) {
        match &self.pool {
            None => items.iter_mut().for_each(f),
            Some(pool) => pool.in_place_scope(|scope| {
                for item in items {
                    let f = &f;
                    scope.spawn(move |_| f(item));
                }
            }),
        }
    }
}

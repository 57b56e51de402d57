//! Where tokens lie in memory: in a tensor, or in the slots of a cache.

use crate::describe::tensor::Layout;

/// Where the heads of tokens lie.
pub(crate) trait Addresses: Copy {
    /// The place of a token, or nothing where the pass leaves it out. (Inlined, because what a call returns through
    /// memory is copied in larger pieces than it was written in, which waits for all stores of the line before.)
    fn token(&self, batch: usize, token: usize) -> Option<Located>;

    /// From a head to those that follow.
    fn steps(&self) -> Steps;
}

/// Where a token lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    /// Index of the first element of its first head.
    pub(crate) element: usize,
    /// Index of the scale of its first head, where scales lie apart.
    pub(crate) scale: usize,
}

impl Located {
    pub(crate) const NOWHERE: Self = Located {
        element: 0,
        scale: 0,
    };
}

/// The source of a call that may be in place.
impl<A: Addresses> Addresses for Option<A> {
    #[inline(always)]
    fn token(&self, batch: usize, token: usize) -> Option<Located> {
        match self {
            Some(addresses) => addresses.token(batch, token),
            None => ().token(batch, token),
        }
    }

    #[inline(always)]
    fn steps(&self) -> Steps {
        match self {
            Some(addresses) => addresses.steps(),
            None => ().steps(),
        }
    }
}

/// The source of a call in place.
impl Addresses for () {
    #[inline(always)]
    fn token(&self, _: usize, _: usize) -> Option<Located> {
        Some(Located::NOWHERE)
    }

    #[inline(always)]
    fn steps(&self) -> Steps {
        Steps::to_head(0)
    }
}

impl Addresses for &Layout {
    #[inline(always)]
    fn token(&self, batch: usize, token: usize) -> Option<Located> {
        Some(Located {
            element: self.head(batch, token, 0),
            scale: 0,
        })
    }

    #[inline(always)]
    fn steps(&self) -> Steps {
        let strides = self.strides();
        let heads = self.shape().heads.wrapping_mul(strides.head);
        let gap = heads < strides.token && strides.token <= strides.batch;
        Steps {
            head: strides.head,
            over_gap: if gap { strides.token } else { 0 },
        }
    }
}

/// Elements from a head to those that follow.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// To the next one of its token.
    pub(crate) head: usize,
    /// To the same one of the next token, where other elements lie between tokens; 0 where none do, and where tokens
    /// lie anywhere.
    pub(crate) over_gap: usize,
}

impl Steps {
    pub(crate) fn to_head(head: usize) -> Self {
        Steps { head, over_gap: 0 }
    }
}

//! Addresses of tokens: in a tensor, or in the slots of a cache.

use crate::describe::tensor::Layout;

/// The addresses of tokens and their heads.
pub(crate) trait Addresses: Copy {
    /// Returns the address of a token, or `None` for a token that the pass skips. Implementations are inlined: a result
    /// returned through memory is copied in larger pieces than it was written in, and such a load waits for every store
    /// of the line before it.
    fn token(&self, batch: usize, token: usize) -> Option<TokenAddress>;

    /// Returns the distances between heads.
    fn steps(&self) -> Steps;
}

/// The address of a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenAddress {
    /// Index of the first element of its first head.
    pub(crate) element: usize,
    /// Index of the scale of its first head, where scales lie apart from codes.
    pub(crate) scale: usize,
}

impl TokenAddress {
    pub(crate) const NOWHERE: Self = TokenAddress {
        element: 0,
        scale: 0,
    };
}

/// The source of a call that is in place (`None`) or out of place.
impl<A: Addresses> Addresses for Option<A> {
    #[inline(always)]
    fn token(&self, batch: usize, token: usize) -> Option<TokenAddress> {
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

/// The source of an in-place call.
impl Addresses for () {
    #[inline(always)]
    fn token(&self, _: usize, _: usize) -> Option<TokenAddress> {
        Some(TokenAddress::NOWHERE)
    }

    #[inline(always)]
    fn steps(&self) -> Steps {
        Steps::to_head(0)
    }
}

impl Addresses for &Layout {
    #[inline(always)]
    fn token(&self, batch: usize, token: usize) -> Option<TokenAddress> {
        Some(TokenAddress {
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

/// Distances between heads, in elements.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// To the next head of the token.
    pub(crate) head: usize,
    /// To the same head of the next token, if other elements lie between tokens; 0 if none do, and for tokens that lie
    /// anywhere.
    pub(crate) over_gap: usize,
}

impl Steps {
    pub(crate) fn to_head(head: usize) -> Self {
        Steps { head, over_gap: 0 }
    }
}

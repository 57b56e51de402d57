//! The `Debug` of types that view memory.

/// Implements `Debug` of a type by some of its properties; the rest is memory.
macro_rules! debug {
    ($([$($generic:tt)*])? $name:ident<$($parameter:tt),*>, |$this:ident| $($field:ident: $value:expr),+) => {
        #[automatically_derived]
        impl$(<$($generic)*>)? core::fmt::Debug for $name<$($parameter),*> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &$value))+
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use debug;

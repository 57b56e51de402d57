//! The macro that makes errors of a list.

use core::fmt;

/// Writes an error as `derive` would.
#[allow(
    dead_code,
    reason = "the compiler does not count uses in implementations that are marked as derived"
)]
pub(super) fn show(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    fields: &[(&str, &dyn fmt::Debug)],
) -> fmt::Result {
    let mut shown = f.debug_struct(name);
    for (name, value) in fields {
        shown.field(name, value);
    }
    shown.finish()
}

/// Makes an enum of errors, with their names, kinds and messages, of one list: `Variant { fields }: Kind => "message"`,
/// or `|f| expression that writes the message`. The fields have their names in both. A group is a variant that holds
/// the error of another list.
macro_rules! errors {
    (
        $(#[doc = $type_doc:literal])+
        pub enum $type:ident $(, groups: { $($(#[doc = $group_doc:literal])+ $group:ident($of_group:ident),)+ })? =>
        $(
            $(#[doc = $doc:literal])+
            $name:ident $({ $($(#[doc = $field_doc:literal])+ $field:ident: $field_type:ty,)+ })?: $kind:ident =>
            $($text:literal)? $(|$f:ident| $message:expr)?,
        )+
    ) => {
        $(#[doc = $type_doc])+
        #[derive(Clone, Copy, PartialEq)]
        #[non_exhaustive]
        pub enum $type {
            $($(
                $(#[doc = $group_doc])+
                $group($of_group),
            )+)?
            $(
                $(#[doc = $doc])+
                $name $({ $($(#[doc = $field_doc])+ $field: $field_type,)+ })?,
            )+
        }

        impl $type {
            /// The names of this list.
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            pub(crate) fn kind_of(&self) -> $crate::ErrorKind {
                match self {
                    $($($type::$group(error) => error.kind_of(),)+)?
                    $($type::$name { .. } => $crate::ErrorKind::$kind,)+
                }
            }
        }

        $(
            /// The names of all errors by groups; those without a group come first.
            pub const NAMES: &[(&str, &[&str])] = &[
                ("", $type::NAMES),
                $((stringify!($group), $of_group::NAMES),)+
            ];
        )?

        // A derived implementation would be compiled again in every crate that shows an error.
        #[automatically_derived]
        impl core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $($($type::$group(error) => f.debug_tuple(stringify!($group)).field(error).finish(),)+)?
                    $(
                        $type::$name $({ $($field),+ })? => $crate::base::error::list::show(
                            f,
                            stringify!($name),
                            &[$($((stringify!($field), $field)),+)?],
                        ),
                    )+
                }
            }
        }

        #[automatically_derived]
        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {
                    $($($type::$group(error) => core::fmt::Display::fmt(&error, f),)+)?
                    $(
                        $type::$name $({ $($field),+ })? => {
                            $(write!(f, $text))?
                            $({
                                let $f = f;
                                $message
                            })?
                        }
                    )+
                }
            }
        }

        #[automatically_derived]
        impl core::error::Error for $type {}
    };
}

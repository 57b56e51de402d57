//! The storage of the table. A row names two or three of its fields, so each field is a column: the numbers of the rows
//! that name it, and their values. Whole rows would take 30 KB of each program that reads a `config.json`; the columns
//! take 7.

/// Defines the struct of a row.
macro_rules! row {
    ($(#[$doc:meta])* Row { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Row { $($(#[$field_doc])* pub(crate) $field: $type,)+ }

        /// The fields named by a row.
        #[derive(Clone, Copy)]
        pub(super) struct Named { $(pub(super) $field: Option<$type>,)+ }

        impl Named {
            pub(super) const NOTHING: Self = Self { $($field: None,)+ };
        }
    };
}

/// Defines [`Row::at`](super::Row::at), which assembles a row of a table from the columns.
macro_rules! columns {
    ($(#[$doc:meta])* Row { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        impl Row {
            /// Assembles the row with that number.
            #[inline(never)]
            pub(super) fn at(number: usize) -> Self {
                let base = BASES[number].row();
                Self {
                    $($field: {
                        const COUNT: usize = {
                            let (mut count, mut row) = (0, 0);
                            while row < NAMED.len() {
                                count += NAMED[row].$field.is_some() as usize;
                                row += 1;
                            }
                            count
                        };
                        static COLUMN: ([u16; COUNT], [$type; COUNT]) = {
                            let (mut rows, mut values) = ([0; COUNT], [HALF.$field; COUNT]);
                            let (mut place, mut row) = (0, 0);
                            while row < NAMED.len() {
                                if let Some(value) = NAMED[row].$field {
                                    (rows[place], values[place]) = (row as u16, value);
                                    place += 1;
                                }
                                row += 1;
                            }
                            (rows, values)
                        };
                        match place(&COLUMN.0, number) {
                            Some(place) => COLUMN.1[place],
                            None => base.$field,
                        }
                    },)+
                }
            }

            /// Assembles the row from the table itself.
            #[cfg(test)]
            pub(super) fn as_named(number: usize) -> Self {
                let (named, base) = (NAMED[number], BASES[number].row());
                Self { $($field: named.$field.unwrap_or(base.$field),)+ }
            }
        }
    };
}

/// Defines an enum of the constants that rows start from.
macro_rules! bases {
    ($($base:ident)+) => {
        #[derive(Clone, Copy)]
        #[expect(
            non_camel_case_types,
            clippy::upper_case_acronyms,
            reason = "the names are those of constants"
        )]
        pub(super) enum BaseRow { $($base),+ }

        impl BaseRow {
            pub(super) fn row(self) -> &'static Row {
                match self {
                    $(Self::$base => const { &$base },)+
                }
            }
        }
    };
}

pub(super) use {bases, columns, row};

/// Returns the index of a row in a column.
#[inline(never)]
pub(super) fn place(rows: &[u16], number: usize) -> Option<usize> {
    rows.iter().position(|&row| usize::from(row) == number)
}

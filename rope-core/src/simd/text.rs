//! The text that backends share.

/// Defines operations with operands and result of one type, one in a line.
macro_rules! operations {
    ($V:ty: $($name:ident($($x:ident),+) => $result:expr;)+) => {
        $(
            #[inline(always)]
            fn $name(self, $($x: $V),+) -> $V {
                $result
            }
        )+
    };
}

/// Defines how vectors are rounded to bf16, for a backend that has `round_number`, `quiet` and `nan_in_four`.
macro_rules! rounding {
    ($Floats:ty => $Integers:ty) => {
        /// Rounds a group in which no lane is a NaN.
        #[inline(always)]
        fn round_numbers(self, [[a, b], [c, d]]: [[$Floats; 2]; 2]) -> [[$Integers; 2]; 2] {
            [
                [self.round_number(a), self.round_number(b)],
                [self.round_number(c), self.round_number(d)],
            ]
        }

        /// Rounds a group. One test finds NaNs, which become quiet instead: rounding could carry one into an infinity.
        #[inline(always)]
        fn round_bf16(self, group: [[$Floats; 2]; 2]) -> [[$Integers; 2]; 2] {
            let [[a, b], [c, d]] = group;
            let mut rounded = self.round_numbers(group);
            if self.nan_in_four([a, b, c, d]) {
                cold_path();
                let [[ra, rb], [rc, rd]] = rounded;
                rounded = [
                    [self.quiet(ra, a), self.quiet(rb, b)],
                    [self.quiet(rc, c), self.quiet(rd, d)],
                ];
            }
            rounded
        }
    };
}

/// Defines the sums of backends whose doubles have operators.
macro_rules! sums {
    () => {
        #[inline(always)]
        fn add_cross(
            self,
            sums: Self::Wide,
            [x1, x2]: [Self::Wide; 2],
            [g1, g2]: [Self::Wide; 2],
        ) -> Self::Wide {
            sums + (x1 * g2 - x2 * g1)
        }

        #[inline(always)]
        fn add_difference(self, sums: Self::Wide, a: Self::F32, b: Self::F32) -> Self::Wide {
            sums + (self.widen(a) - self.widen(b))
        }

        #[inline(always)]
        fn add_dot(
            self,
            sums: Self::Wide,
            [x1, x2]: [Self::Wide; 2],
            [g1, g2]: [Self::Wide; 2],
        ) -> Self::Wide {
            sums + (x1 * g1 + x2 * g2)
        }
    };
}

pub(crate) use {operations, rounding, sums};

//! The positions of an image's patches.

use rope_core::Error;

/// The order of the axes of a grid, named as in `torch.meshgrid` and timm's `grid_indexing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridIndexing {
    /// Axis 0 is the column, axis 1 the row: the models of RoPE-ViT.
    Xy,
    /// Axis 0 is the row, axis 1 the column.
    Ij,
}

impl GridIndexing {
    /// Computes the positions of `[rows, columns]` patches, all on axis 0 and then all on axis 1, for
    /// [`Positions::axis_major`](rope_core::Positions::axis_major) or, with real numbers,
    /// [`Positions::axis_major`](rope_core::Positions::axis_major). Patch `row * columns + column` is the
    /// token of that number. Uses and returns the first `2 * rows * columns` elements of the storage.
    ///
    /// ```
    /// use rope_models::GridIndexing;
    ///
    /// let mut storage = [0_i64; 12];
    /// let grid = GridIndexing::Xy.positions_in([2, 3], &mut storage)?;
    /// assert_eq!(grid, [0, 1, 2, 0, 1, 2, /* */ 0, 0, 0, 1, 1, 1]);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] if the storage is too short; it is untouched then.
    pub fn positions_in<T: From<u16>>(
        self,
        [rows, columns]: [u16; 2],
        storage: &mut [T],
    ) -> Result<&mut [T], Error> {
        let (given, tokens) = (
            storage.len(),
            usize::from(rows).saturating_mul(columns.into()),
        );
        let needed = tokens.saturating_mul(2);
        let positions = storage.get_mut(..needed).ok_or(Error::Storage {
            what: "positions of storage",
            given,
            needed,
        })?;
        let (first, second) = positions.split_at_mut(tokens);
        let (of_columns, of_rows) = match self {
            GridIndexing::Xy => (first, second),
            GridIndexing::Ij => (second, first),
        };
        let patches = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        for ((row, column), (of_row, of_column)) in
            patches.zip(of_rows.iter_mut().zip(of_columns.iter_mut()))
        {
            (*of_row, *of_column) = (row.into(), column.into());
        }
        Ok(positions)
    }
}

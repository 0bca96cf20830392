//! The positions of the elements of lists within the child array of a list array.

/// The range of each list's elements in the child array.
#[derive(Debug)]
pub(super) enum Extents<'a> {
    Offsets32(&'a [i32]),
    Offsets64(&'a [i64]),
    Views32(&'a [i32], &'a [i32]),
    Views64(&'a [i64], &'a [i64]),
    Fixed(usize),
}

impl Extents<'_> {
    pub(super) fn of(&self, row: usize) -> std::ops::Range<usize> {
        let at = |value: i64| usize::try_from(value).unwrap_or(0);
        let narrow = |values: &[i32], row: usize| values.get(row).map_or(0, |v| i64::from(*v));
        let wide = |values: &[i64], row: usize| values.get(row).copied().unwrap_or(0);
        match self {
            Self::Offsets32(offsets) => at(narrow(offsets, row))..at(narrow(offsets, row + 1)),
            Self::Offsets64(offsets) => at(wide(offsets, row))..at(wide(offsets, row + 1)),
            Self::Views32(offsets, sizes) => {
                let start = at(narrow(offsets, row));
                start..start + at(narrow(sizes, row))
            }
            Self::Views64(offsets, sizes) => {
                let start = at(wide(offsets, row));
                start..start + at(wide(sizes, row))
            }
            Self::Fixed(size) => row * size..(row + 1) * size,
        }
    }
}

//! The room that entries take on disk.

use std::ops::{Add, AddAssign, Sub, SubAssign};

/// Room on a disk: bytes and inodes. Sums and differences end at the largest number and at 0.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Footprint {
    pub bytes: u64,
    pub inodes: u64,
}

/// Unit in which file systems give room, in bytes.
const UNIT: u64 = 4096;

/// Bytes that the record of an entry takes.
const CINFO_BYTES: u64 = UNIT;

const ENTRY_INODES: u64 = 2;

impl Footprint {
    pub const ZERO: Self = Self { bytes: 0, inodes: 0 };

    /// The room of an entry with `present_bytes` on disk: computed from its record, so that it is the same after a restart.
    pub const fn of_entry(present_bytes: u64) -> Self {
        let data = match present_bytes.checked_next_multiple_of(UNIT) {
            Some(bytes) => bytes,
            None => u64::MAX,
        };
        Self { bytes: data.saturating_add(CINFO_BYTES), inodes: ENTRY_INODES }
    }

    /// The room of an entry whose bytes, computed as above, are `bytes`.
    pub(crate) const fn of_facts(bytes: u64) -> Self {
        Self { bytes, inodes: ENTRY_INODES }
    }

    pub const fn is_zero(self) -> bool {
        self.bytes == 0 && self.inodes == 0
    }
}

impl Add for Footprint {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), inodes: self.inodes.saturating_add(other.inodes) }
    }
}

impl Sub for Footprint {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(other.bytes), inodes: self.inodes.saturating_sub(other.inodes) }
    }
}

impl AddAssign for Footprint {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Footprint {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Footprint {
    fn sum<I: Iterator<Item = Self>>(footprints: I) -> Self {
        footprints.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_take_whole_units_and_a_record() {
        for (present_bytes, bytes) in [(0, 4096), (1, 8192), (4096, 8192), (4097, 12288), (u64::MAX, u64::MAX)] {
            assert_eq!(Footprint::of_entry(present_bytes), Footprint { bytes, inodes: 2 }, "{present_bytes}");
        }
    }
}

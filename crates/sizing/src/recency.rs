//! Files in the order of their last use, with the bytes of all that were used more recently.

/// The files that were used last, each known by a hash of its name. Memory: 56 bytes for each file that fits the present capacity,
/// which doubles as it fills up, until `files_max`.
#[derive(Debug)]
pub(crate) struct Recency {
    files_max: usize,
    files: Vec<Entry>,
    /// Numbers of files by hash, plus one; 0 is free. At most half of it is in use.
    table: Vec<u32>,
    /// Numbers of files by position, plus one; 0 is free. Later positions were used later.
    order: Vec<u32>,
    /// Sums of the sizes at the positions, as a binary indexed tree.
    sums: Vec<u64>,
    /// The position of the next use.
    end: usize,
    /// The first position that may be in use.
    begin: usize,
    /// The sum of all sizes.
    total: u64,
}

/// A file in [`Recency`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    hash: u64,
    /// In units of [`UNIT`].
    pub(crate) size: u32,
    /// When it was last used, in seconds of the Unix epoch.
    pub(crate) last_use: u32,
    pub(crate) uses: u32,
    position: u32,
}

/// Bytes in which sizes are counted: with them, 32 bits hold 16 TiB.
pub(crate) const UNIT: u64 = 4096;

const FILES_MIN: usize = 1024;

impl Recency {
    pub(crate) fn new(files_max: usize) -> Self {
        let mut recency = Self {
            files_max: files_max.clamp(1, u32::MAX as usize / 4),
            files: Vec::new(),
            table: Vec::new(),
            order: Vec::new(),
            sums: Vec::new(),
            end: 0,
            begin: 0,
            total: 0,
        };
        recency.set_capacity(FILES_MIN.min(recency.files_max));
        recency
    }

    pub(crate) fn is_full(&self) -> bool {
        self.files.len() == self.files_max
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The file of this hash, and the units of all files that were used since, its own included.
    pub(crate) fn find(&self, hash: u64) -> Option<(Entry, u64)> {
        let entry = *self.files.get(self.slot(hash).ok()?.1)?;
        let before = self.sum(entry.position as usize);
        Some((entry, self.total - before))
    }

    /// Makes a file the one that was used last. The one that was not used for the longest time is forgotten if there are too many.
    pub(crate) fn touch(&mut self, hash: u64, size: u32, now: u32) {
        if self.end == self.order.len() {
            self.renumber();
        }
        let number = match self.slot(hash) {
            Ok((_, number)) => {
                self.take_from_order(number);
                number
            }
            Err(_) => self.add(hash),
        };
        let position = self.end;
        if let Some(entry) = self.files.get_mut(number) {
            *entry =
                Entry { hash, size, last_use: now, uses: entry.uses.saturating_add(1), position: of_index(position) };
        }
        self.place(position, number, size);
        self.end += 1;
    }

    /// All files, the one used last first.
    pub(crate) fn latest_first(&self) -> impl Iterator<Item = &Entry> + '_ {
        let used = self.order.get(self.begin..self.end).unwrap_or_default();
        used.iter().rev().filter_map(|number| self.files.get((*number as usize).checked_sub(1)?))
    }

    /// The memory that it takes, in bytes.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.files.capacity() * size_of::<Entry>()
            + (self.table.capacity() + self.order.capacity()) * size_of::<u32>()
            + self.sums.capacity() * size_of::<u64>()
    }

    /// A number for a new file.
    fn add(&mut self, hash: u64) -> usize {
        let number = if self.is_full() { self.forget_oldest() } else { self.files.len() };
        if number == self.files.capacity() {
            self.set_capacity((2 * number).min(self.files_max));
        }
        let entry = Entry { hash, ..Entry::default() };
        match self.files.get_mut(number) {
            Some(place) => *place = entry,
            None => self.files.push(entry),
        }
        if let Err(place) = self.slot(hash)
            && let Some(place) = self.table.get_mut(place)
        {
            *place = of_index(number) + 1;
        }
        number
    }

    fn forget_oldest(&mut self) -> usize {
        while self.order.get(self.begin) == Some(&0) {
            self.begin += 1;
        }
        let number = self.order.get(self.begin).map_or(0, |number| *number as usize - 1);
        self.take_from_order(number);
        if let Some(hash) = self.files.get(number).map(|entry| entry.hash) {
            self.take_from_table(hash);
        }
        number
    }

    /// The place of a hash in the table, and the number of its file; otherwise the free place for it.
    fn slot(&self, hash: u64) -> Result<(usize, usize), usize> {
        let mask = self.table.len() - 1;
        let mut place = home(hash, mask);
        loop {
            match self.table.get(place) {
                Some(0) | None => return Err(place),
                Some(number) => {
                    let number = *number as usize - 1;
                    if self.files.get(number).is_some_and(|entry| entry.hash == hash) {
                        return Ok((place, number));
                    }
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// Takes a hash out, and moves those after it that could not be found otherwise.
    fn take_from_table(&mut self, hash: u64) {
        let Ok((mut hole, _)) = self.slot(hash) else { return };
        let mask = self.table.len() - 1;
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let number = self.table.get(place).copied().unwrap_or(0);
            let Some(entry) = (number as usize).checked_sub(1).and_then(|number| self.files.get(number)) else { break };
            let distance = place.wrapping_sub(home(entry.hash, mask)) & mask;
            if distance >= (place.wrapping_sub(hole) & mask) {
                self.table.swap(hole, place);
                hole = place;
            }
        }
        if let Some(hole) = self.table.get_mut(hole) {
            *hole = 0;
        }
    }

    fn take_from_order(&mut self, number: usize) {
        let Some(entry) = self.files.get(number).copied() else { return };
        if let Some(place) = self.order.get_mut(entry.position as usize) {
            *place = 0;
        }
        self.total -= u64::from(entry.size);
        self.change(entry.position as usize, u64::from(entry.size).wrapping_neg());
    }

    fn place(&mut self, position: usize, number: usize, size: u32) {
        if let Some(place) = self.order.get_mut(position) {
            *place = of_index(number) + 1;
        }
        self.total += u64::from(size);
        self.change(position, u64::from(size));
    }

    /// The sum of the sizes before `position`.
    fn sum(&self, position: usize) -> u64 {
        let mut node = position;
        let mut sum = 0_u64;
        while node > 0 {
            sum = sum.wrapping_add(self.sums.get(node - 1).copied().unwrap_or(0));
            node &= node - 1;
        }
        sum
    }

    /// Adds to the size at `position`; differences wrap around.
    fn change(&mut self, position: usize, by: u64) {
        let mut node = position + 1;
        while let Some(sum) = self.sums.get_mut(node - 1) {
            *sum = sum.wrapping_add(by);
            node += node & node.wrapping_neg();
        }
    }

    /// Gives the files new positions without gaps.
    fn renumber(&mut self) {
        let numbers: Vec<u32> = self.order.iter().copied().filter(|number| *number != 0).collect();
        self.order.fill(0);
        self.sums.fill(0);
        self.total = 0;
        for (position, number) in numbers.iter().enumerate() {
            let number = *number as usize - 1;
            if let Some(entry) = self.files.get_mut(number) {
                entry.position = of_index(position);
                let size = entry.size;
                self.place(position, number, size);
            }
        }
        (self.begin, self.end) = (0, numbers.len());
    }

    /// Makes room for so many files. Positions are twice as many: they are given again after as many uses as there are files, at least.
    fn set_capacity(&mut self, count: usize) {
        self.files.reserve_exact(count - self.files.len());
        self.table = vec![0; (2 * count).next_power_of_two()];
        let numbers: Vec<(u64, u32)> = self.files.iter().map(|entry| entry.hash).zip(1..).collect();
        for (hash, number) in numbers {
            let place = self.free_place(hash);
            if let Some(place) = self.table.get_mut(place) {
                *place = number;
            }
        }
        self.order.reserve_exact(2 * count - self.order.len());
        self.order.resize(2 * count, 0);
        self.sums = vec![0; 2 * count];
        self.renumber();
    }

    /// The place for a hash that the table does not have.
    fn free_place(&self, hash: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut place = home(hash, mask);
        while self.table.get(place).is_some_and(|number| *number != 0) {
            place = (place + 1) & mask;
        }
        place
    }
}

/// A number of a file or a position, which are fewer than 2^32.
fn of_index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The place of a table of `mask` + 1 places at which a hash is sought first.
fn home(hash: u64, mask: usize) -> usize {
    usize::try_from(hash & mask as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by a list, the file used last at its end.
    #[derive(Default)]
    struct List(Vec<(u64, u32, u32)>);

    impl List {
        fn find(&self, hash: u64) -> Option<(u32, u64)> {
            let position = self.0.iter().position(|file| file.0 == hash)?;
            Some((self.0[position].2, self.0[position..].iter().map(|file| u64::from(file.1)).sum()))
        }

        fn touch(&mut self, hash: u64, size: u32, files_max: usize) {
            let uses = self.find(hash).map_or(0, |(uses, _)| uses);
            self.0.retain(|file| file.0 != hash);
            if self.0.len() == files_max {
                self.0.remove(0);
            }
            self.0.push((hash, size, uses + 1));
        }
    }

    proptest! {
        #[test]
        fn order_and_sums_are_those_of_a_list(
            files_max in 1_usize..40,
            uses in prop::collection::vec((0_u64..60, 0_u32..1000), 1..600),
        ) {
            let (mut recency, mut list) = (Recency::new(files_max), List::default());
            for (number, size) in uses {
                // Hashes that meet at the same places of the table.
                let hash = number % 7 + (number << 32);
                let found = recency.find(hash).map(|(entry, sum)| (entry.uses, sum));
                prop_assert_eq!(found, list.find(hash));
                recency.touch(hash, size, 9);
                list.touch(hash, size, files_max);
                prop_assert_eq!(recency.files.len(), list.0.len());
                prop_assert_eq!(recency.total(), list.0.iter().map(|file| u64::from(file.1)).sum::<u64>());
            }
            let order: Vec<u64> = recency.latest_first().map(|entry| entry.hash).collect();
            prop_assert_eq!(order, list.0.iter().rev().map(|file| file.0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_file_takes_no_more_than_64_bytes_when_it_is_full() {
        let files_max = 1 << 17;
        let mut recency = Recency::new(files_max);
        for number in 0..3 * files_max as u64 {
            recency.touch(number.wrapping_mul(0x9E37_79B9_7F4A_7C15), 1, 1);
        }
        assert!(recency.is_full());
        assert!(recency.memory() <= 64 * files_max, "{} bytes", recency.memory() / files_max);
    }
}

//! Adjacent elements of a vector read, which are read by one system call.

use forebay_net::{NowaitReads, read_nowait_vectored};
use forebay_proto::{request::ReadElement, response::element_header};
use forebay_types::ByteRange;
use std::{
    fs::File,
    io::IoSliceMut,
    mem::{size_of_val, take},
};

/// Elements of one file, each of which starts at the end of the one before.
pub(crate) struct ContiguousElements {
    pub(crate) elements: Vec<ReadElement>,
    /// The range of all elements.
    pub(crate) range: ByteRange,
}

/// Bytes of data, unless it is one longer element: vectored reads of more gain nothing.
const LEN_MAX: u64 = 128 << 10;

/// Elements, and so buffers of one system call.
const ELEMENTS_MAX: usize = 256;

impl ContiguousElements {
    pub(crate) fn of(first: ReadElement) -> Self {
        Self { elements: vec![first], range: range_of(&first) }
    }

    /// Whether `next` follows the last element, within the limits.
    pub(crate) fn continues_with(&self, next: &ReadElement) -> bool {
        let is_next = self.elements.first().is_some_and(|first| first.handle == next.handle)
            && next.offset == self.range.end()
            && !range_of(next).is_empty()
            && !self.range.is_empty();
        is_next && self.range.len() + u64::from(next.len) <= LEN_MAX && self.elements.len() < ELEMENTS_MAX
    }

    pub(crate) fn push(&mut self, next: ReadElement) {
        self.range = ByteRange::between(self.range.start(), range_of(&next).end());
        self.elements.push(next);
    }

    /// Bytes of the first `count` elements in an answer, with their headers.
    pub(crate) fn encoded_len(&self, count: usize) -> usize {
        self.elements.iter().take(count).map(encoded_len).fold(0, usize::saturating_add)
    }

    /// Writes the elements to `room`, with their data from the page cache. Returns how many are whole, from the first one on.
    pub(crate) fn read_cached(&self, (file, nowait): (&File, NowaitReads), mut room: &mut [u8]) -> usize {
        let mut data: Vec<IoSliceMut<'_>> = Vec::with_capacity(self.elements.len());
        for element in &self.elements {
            let header = element_header(element);
            let len = usize::try_from(element.len).unwrap_or(usize::MAX);
            // The header is written even if the data is missing: the caller commits only whole elements.
            let Some((head, behind)) = take(&mut room).split_at_mut_checked(header.len()) else { return 0 };
            head.copy_from_slice(&header);
            let Some((body, next)) = behind.split_at_mut_checked(len) else { return 0 };
            data.push(IoSliceMut::new(body));
            room = next;
        }
        let read = read_nowait_vectored(file, nowait, self.range.start(), &mut data);
        let read_end = self.range.start().saturating_add(read.ok().flatten().map_or(0, |len| len as u64));
        self.elements.iter().take_while(|element| range_of(element).end() <= read_end).count()
    }
}

pub(crate) fn range_of(element: &ReadElement) -> ByteRange {
    ByteRange::at(element.offset, u64::from(element.len))
}

/// Bytes that an element takes in an answer.
pub(crate) fn encoded_len(element: &ReadElement) -> usize {
    usize::try_from(element.len).unwrap_or(usize::MAX).saturating_add(size_of_val(&element_header(element)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::FileHandle;
    use std::io::Write;

    fn element(handle: u8, offset: u64, len: u32) -> ReadElement {
        ReadElement { handle: FileHandle([0, 0, 0, handle]), offset, len }
    }

    #[test]
    fn another_file_a_gap_or_an_empty_element_ends_the_run() {
        let mut run = ContiguousElements::of(element(1, 100, 10));
        assert!(run.continues_with(&element(1, 110, 5)));
        for other in [element(2, 110, 5), element(1, 111, 5), element(1, 105, 5), element(1, 110, 0)] {
            assert!(!run.continues_with(&other), "{other:?}");
        }
        run.push(element(1, 110, 5));
        assert_eq!((run.range, run.elements.len()), (ByteRange::at(100, 15), 2));
        assert!(run.continues_with(&element(1, 115, 1)));
        assert!(!run.continues_with(&element(1, 115, u32::MAX)));
        assert!(!ContiguousElements::of(element(1, 100, 0)).continues_with(&element(1, 100, 5)));
    }

    #[test]
    fn elements_are_written_after_their_headers_while_there_is_data() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut run = ContiguousElements::of(element(1, 1, 3));
        run.push(element(1, 4, 2));
        run.push(element(1, 6, 9));
        let mut room = vec![0; run.encoded_len(3)];
        assert_eq!(room.len(), 3 * 16 + 14);
        assert_eq!(run.read_cached((&file, NowaitReads::default()), &mut room), 2, "the file ends within the third");
        let expected = [
            &element_header(&element(1, 1, 3))[..],
            b"123",
            &element_header(&element(1, 4, 2)),
            b"45",
            &element_header(&element(1, 6, 9)),
        ]
        .concat();
        assert!(room.starts_with(&expected));
        assert_eq!(run.encoded_len(2), 37);
    }
}

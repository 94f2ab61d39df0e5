//! The requests on a data connection, and the position of its file.

use crate::{
    data_answer::{BLOCK_LEN_MAX, DataAnswer},
    received::Received,
};
use forebay_types::ByteRange;

/// Parts of one vector read: libdcap 2.47 sends longer ones as several requests.
pub const PARTS_MAX: usize = 1024;

/// Bytes of all parts of one vector read.
pub const VECTOR_LEN_MAX: u64 = 1 << 30;

/// Longest request: a vector read with the most parts, and room for fields that are not known.
const REQUEST_LEN_MAX: usize = 16 << 10;

/// Length of the length of a request.
const LEN_LEN: usize = 4;

/// Length of a part of a vector read.
const PART_LEN: usize = 12;

pub(crate) mod number {
    pub(crate) const WRITE: i32 = 1;
    pub(crate) const READ: i32 = 2;
    pub(crate) const SEEK: i32 = 3;
    pub(crate) const CLOSE: i32 = 4;
    pub(crate) const LOCATE: i32 = 9;
    pub(crate) const SEEK_READ: i32 = 11;
    pub(crate) const SEEK_WRITE: i32 = 12;
    pub(crate) const READ_VECTOR: i32 = 13;
}

/// The data connection of one open file. Pass bytes to [`DataSession::handle_bytes`], then take requests until there are no more. An error
/// ends the connection.
#[derive(Debug)]
pub struct DataSession {
    size: u64,
    position: u64,
    received: Received,
}

/// A request on a data connection. Ranges lie within the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DataRequest {
    Read(Reading),
    /// Parts of the file, in this order; none is empty.
    Vector(Vec<ByteRange>),
    /// Reports the position after a seek.
    Seek {
        position: u64,
    },
    /// Reports the size of the file, and the position.
    Locate {
        size: u64,
        position: u64,
    },
    Close,
}

/// A read of bytes in order, empty at the end of the file. The position is after it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reading {
    pub range: ByteRange,
    pub answer: DataAnswer,
}

/// Why a data connection has to be closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DataError {
    #[error("a request has {len} bytes")]
    Length { len: i32 },
    #[error("the request {command} is shorter than its fields")]
    Short { command: i32 },
    #[error("the request {command} is not supported")]
    Unsupported { command: i32 },
    #[error("the file is open for reading only")]
    Write,
    #[error("a seek to a position before the file, or from an unknown base")]
    Seek,
    #[error("a read of a negative number of bytes")]
    NegativeCount,
    #[error("a vector read with {parts} parts")]
    PartCount { parts: i32 },
    /// The protocol has no answer that clients survive.
    #[error("a vector read with a part outside of the file")]
    PartOutside,
    #[error("a vector read of more than {VECTOR_LEN_MAX} bytes")]
    VectorTooLong,
}

/// The fields of a request that have not been read.
struct Fields<'a> {
    command: i32,
    rest: &'a [u8],
}

impl DataSession {
    /// The connection of a file of `size` bytes, at its beginning.
    pub fn new(size: u64) -> Self {
        Self { size, position: 0, received: Received::default() }
    }

    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.received.push(bytes);
    }

    /// Whether a request has begun and is not complete.
    pub fn is_within_request(&self) -> bool {
        !self.received.is_empty()
    }

    /// The next complete request.
    ///
    /// # Errors
    /// See [`DataError`].
    pub fn poll_request(&mut self) -> Result<Option<DataRequest>, DataError> {
        let waiting = self.received.waiting();
        let Some(&len) = waiting.first_chunk::<LEN_LEN>() else { return Ok(None) };
        let len = i32::from_be_bytes(len);
        // The command is the first field.
        let known_len = usize::try_from(len).ok().filter(|len| (4..=REQUEST_LEN_MAX).contains(len));
        let end = LEN_LEN + known_len.ok_or(DataError::Length { len })?;
        let Some(body) = waiting.get(LEN_LEN..end) else { return Ok(None) };
        let (request, position) = self.interpret(body)?;
        self.received.consume(end);
        self.position = position;
        Ok(Some(request))
    }

    /// A request, and the position after it.
    fn interpret(&self, body: &[u8]) -> Result<(DataRequest, u64), DataError> {
        let mut fields = Fields { command: 0, rest: body };
        fields.command = fields.int()?;
        match fields.command {
            number::READ => self.read(self.position, &mut fields),
            number::SEEK_READ => {
                let position = self.seek(&mut fields)?;
                self.read(position, &mut fields)
            }
            number::SEEK => {
                let position = self.seek(&mut fields)?;
                Ok((DataRequest::Seek { position }, position))
            }
            number::READ_VECTOR => Ok((DataRequest::Vector(self.parts(&mut fields)?), self.position)),
            number::LOCATE => Ok((DataRequest::Locate { size: self.size, position: self.position }, self.position)),
            number::CLOSE => Ok((DataRequest::Close, self.position)),
            number::WRITE | number::SEEK_WRITE => Err(DataError::Write),
            command => Err(DataError::Unsupported { command }),
        }
    }

    fn read(&self, position: u64, fields: &mut Fields<'_>) -> Result<(DataRequest, u64), DataError> {
        let count = u64::try_from(fields.long()?).map_err(|_| DataError::NegativeCount)?;
        // A short answer is that of a short read: clients ask again.
        let len = self.size.saturating_sub(position).min(count).min(BLOCK_LEN_MAX);
        let range = ByteRange::at(position.min(self.size), len);
        let answer = DataAnswer { command: fields.command };
        Ok((DataRequest::Read(Reading { range, answer }), position.saturating_add(len)))
    }

    fn seek(&self, fields: &mut Fields<'_>) -> Result<u64, DataError> {
        let (offset, whence) = (fields.long()?, fields.int()?);
        let base = match whence {
            0 => 0,
            1 => self.position,
            2 => self.size,
            _ => return Err(DataError::Seek),
        };
        base.checked_add_signed(offset).ok_or(DataError::Seek)
    }

    fn parts(&self, fields: &mut Fields<'_>) -> Result<Vec<ByteRange>, DataError> {
        let count = fields.int()?;
        let parts = usize::try_from(count).ok().filter(|parts| *parts <= PARTS_MAX);
        let parts = parts.ok_or(DataError::PartCount { parts: count })?;
        if fields.rest.len() < parts * PART_LEN {
            return Err(DataError::Short { command: fields.command });
        }
        let mut ranges = Vec::with_capacity(parts);
        let mut total_len = 0;
        for _ in 0..parts {
            let offset = u64::try_from(fields.long()?).map_err(|_| DataError::PartOutside)?;
            let len = u64::try_from(fields.int()?).map_err(|_| DataError::NegativeCount)?;
            if offset.saturating_add(len) > self.size {
                return Err(DataError::PartOutside);
            }
            total_len += len;
            if len > 0 {
                ranges.push(ByteRange::at(offset, len));
            }
        }
        if total_len > VECTOR_LEN_MAX { Err(DataError::VectorTooLong) } else { Ok(ranges) }
    }
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DataError> {
        let (&taken, rest) = self.rest.split_first_chunk().ok_or(DataError::Short { command: self.command })?;
        self.rest = rest;
        Ok(taken)
    }

    fn int(&mut self) -> Result<i32, DataError> {
        self.take().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Result<i64, DataError> {
        self.take().map(i64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 3_000_001;

    /// A request with its length.
    fn request(fields: &[&[u8]]) -> Vec<u8> {
        let body = fields.concat();
        [&i32::try_from(body.len()).unwrap().to_be_bytes(), body.as_slice()].concat()
    }

    fn int(value: i32) -> [u8; 4] {
        value.to_be_bytes()
    }

    fn long(value: i64) -> [u8; 8] {
        value.to_be_bytes()
    }

    fn seek_read(offset: i64, whence: i32, count: i64) -> Vec<u8> {
        request(&[&int(number::SEEK_READ), &long(offset), &int(whence), &long(count)])
    }

    fn vector(parts: &[(i64, i32)]) -> Vec<u8> {
        let parts: Vec<u8> = parts.iter().flat_map(|(offset, len)| [&long(*offset)[..], &int(*len)].concat()).collect();
        let count = i32::try_from(parts.len() / PART_LEN).unwrap();
        request(&[&int(number::READ_VECTOR), &int(count), &parts])
    }

    fn all(bytes: &[u8]) -> Result<Vec<DataRequest>, DataError> {
        let mut session = DataSession::new(SIZE);
        session.handle_bytes(bytes);
        let mut requests = Vec::new();
        while let Some(request) = session.poll_request()? {
            requests.push(request);
        }
        Ok(requests)
    }

    fn read(command: i32, start: u64, len: u64) -> DataRequest {
        DataRequest::Read(Reading { range: ByteRange::at(start, len), answer: DataAnswer { command } })
    }

    #[test]
    fn reads_move_the_position_and_end_with_the_file() {
        let bytes = [
            request(&[&int(2), &long(1_048_570)]),
            seek_read(10, 1, 5),
            request(&[&int(number::SEEK), &long(-100), &int(2)]),
            request(&[&int(number::LOCATE)]),
            request(&[&int(2), &long(4096)]),
            request(&[&int(2), &long(4096)]),
            seek_read(5_000_000, 0, 10),
            request(&[&int(number::CLOSE)]),
        ]
        .concat();
        let expected = [
            read(2, 0, 1_048_570),
            read(11, 1_048_580, 5),
            DataRequest::Seek { position: SIZE - 100 },
            DataRequest::Locate { size: SIZE, position: SIZE - 100 },
            read(2, SIZE - 100, 100),
            read(2, SIZE, 0),
            read(11, SIZE, 0),
            DataRequest::Close,
        ];
        assert_eq!(all(&bytes).unwrap(), expected);
    }

    #[test]
    fn the_parts_of_a_vector_lie_within_the_file() {
        let end = i64::try_from(SIZE).unwrap();
        let ranges = vec![ByteRange::at(7, 11), ByteRange::at(SIZE - 1, 1)];
        assert_eq!(all(&vector(&[(7, 11), (50, 0), (end - 1, 1)])).unwrap(), [DataRequest::Vector(ranges)]);
        assert_eq!(all(&vector(&[(7, 11), (end - 1, 2)])), Err(DataError::PartOutside));
        assert_eq!(all(&vector(&[(-1, 1)])), Err(DataError::PartOutside));
        assert_eq!(all(&vector(&[(0, -1)])), Err(DataError::NegativeCount));
        assert!(all(&vector(&[(0, 1); PARTS_MAX])).is_ok());
        assert_eq!(all(&vector(&[(0, 1); PARTS_MAX + 1])), Err(DataError::PartCount { parts: 1025 }));
    }

    #[test]
    fn vectors_have_a_longest_length() {
        let mut session = DataSession::new(2 * VECTOR_LEN_MAX);
        let half = i32::try_from(VECTOR_LEN_MAX / 2).unwrap();
        session.handle_bytes(&vector(&[(0, half), (9, half)]));
        assert!(session.poll_request().is_ok_and(|request| request.is_some()));
        session.handle_bytes(&vector(&[(0, half), (9, half), (0, 1)]));
        assert_eq!(session.poll_request(), Err(DataError::VectorTooLong));
    }

    #[test]
    fn a_long_read_is_answered_by_a_short_one() {
        let mut session = DataSession::new(2 * BLOCK_LEN_MAX);
        session.handle_bytes(&seek_read(1, 0, i64::MAX));
        assert_eq!(session.poll_request(), Ok(Some(read(11, 1, BLOCK_LEN_MAX))));
    }

    #[test]
    fn other_requests_are_refused() {
        for (bytes, error) in [
            (request(&[&int(1), &long(5)]), DataError::Write),
            (request(&[&int(12), &long(5), &int(0), &long(5)]), DataError::Write),
            (request(&[&int(5)]), DataError::Unsupported { command: 5 }),
            (request(&[&int(2), &int(5)]), DataError::Short { command: 2 }),
            (request(&[&int(2), &long(-5)]), DataError::NegativeCount),
            (request(&[&int(3), &long(-1), &int(0)]), DataError::Seek),
            (request(&[&int(3), &long(0), &int(3)]), DataError::Seek),
            (int(3).to_vec(), DataError::Length { len: 3 }),
            (int(-1).to_vec(), DataError::Length { len: -1 }),
            (int(16_385).to_vec(), DataError::Length { len: 16_385 }),
        ] {
            assert_eq!(all(&bytes), Err(error), "{bytes:?}");
        }
        assert_eq!(all(&int(16_384)), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn requests_do_not_depend_on_how_bytes_arrive(
            reads in prop::collection::vec((0..4_000_000_i64, 0..3_i32, 0..100_000_i64), 0..5),
            step in 1..40_usize,
        ) {
            let bytes: Vec<u8> = reads.iter().flat_map(|&(offset, whence, count)| seek_read(offset, whence, count)).collect();
            let (mut session, mut requests) = (DataSession::new(SIZE), Vec::new());
            for piece in bytes.chunks(step) {
                session.handle_bytes(piece);
                while let Some(request) = session.poll_request().unwrap() {
                    requests.push(request);
                }
            }
            prop_assert!(!session.is_within_request());
            prop_assert_eq!(requests, all(&bytes).unwrap());
        }

        #[test]
        fn no_bytes_lead_outside_of_the_file(size in any::<u64>(), bodies in prop::collection::vec((0..15_i32, prop::collection::vec(any::<u8>(), 0..40)), 0..8)) {
            let mut session = DataSession::new(size);
            for (command, fields) in bodies {
                session.handle_bytes(&request(&[&int(command), &fields]));
            }
            while let Ok(Some(request)) = session.poll_request() {
                match request {
                    DataRequest::Read(Reading { range, .. }) => prop_assert!(range.end() <= size),
                    DataRequest::Vector(parts) => prop_assert!(parts.iter().all(|range| range.end() <= size)),
                    _ => {}
                }
            }
        }
    }
}

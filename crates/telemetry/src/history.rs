//! The past of the server in a fixed amount of memory: a few series at three resolutions, and their form on disk.
//!
//! The order of calls: [`History::add`] with one sample per [`Range::Hour`] step; coarser points are the means of the finer
//! samples that fall into them.

use forebay_types::named_enum;
use std::collections::VecDeque;

named_enum! {
    /// A part of the past, at one resolution.
    pub enum Range {
        /// An hour in steps of five seconds.
        Hour = "hour",
        /// A day in steps of one minute.
        Day = "day",
        /// Ninety days in steps of one hour.
        Quarter = "quarter",
    }
}

named_enum! {
    pub enum Series {
        /// Bytes per second sent to clients.
        ClientBytes = "client_bytes",
        /// The part of them from the cache.
        HitBytes = "hit_bytes",
        /// Bytes per second received from origins.
        OriginBytes = "origin_bytes",
        /// Files per second that clients have read and closed.
        Files = "files",
        /// Those of them whose bytes all came from the cache.
        FileHits = "file_hits",
        /// Errors per second sent to clients.
        Errors = "errors",
        /// Bytes per second freed by purges.
        PurgedBytes = "purged_bytes",
        UsedBytes = "used_bytes",
        /// Seconds for which the files removed last had not been used.
        EvictionAge = "eviction_age",
        OpenFiles = "open_files",
        Connections = "connections",
        /// Memory of data in transit in bytes.
        MemoryBytes = "memory_bytes",
    }
}

/// Number of series that each point has.
pub const SERIES_COUNT: usize = Series::ALL.len();

/// The values of all series at one time, in the order of [`Series::ALL`].
pub type Values = [f32; SERIES_COUNT];

/// A point of a history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Begin of its step in seconds of the Unix epoch.
    pub at: u64,
    /// Samples that fall into the step: fewer than it has room for if the server did not run all the time.
    pub samples: u32,
    pub values: Values,
}

/// The past at all resolutions.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    rings: [Ring; Range::ALL.len()],
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Ring {
    points: VecDeque<Point>,
}

/// The reason why bytes are not a history.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HistoryError {
    #[error("it is not a history, or one of another version")]
    Format,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it is incomplete")]
    Length,
}

/// First bytes of the form on disk; the digit is the version.
const MAGIC: &[u8; 8] = b"FBYHIST1";

const POINT_LEN: usize = size_of::<u64>() + size_of::<u32>() + SERIES_COUNT * size_of::<f32>();

/// Bytes of the longest form on disk.
pub const HISTORY_LEN_MAX: usize = 16 + (720 + 1440 + 2160) * POINT_LEN + 64;

impl Range {
    #[must_use]
    pub const fn step_s(self) -> u64 {
        match self {
            Self::Hour => 5,
            Self::Day => 60,
            Self::Quarter => 3600,
        }
    }

    #[must_use]
    pub const fn points_max(self) -> usize {
        match self {
            Self::Hour => 720,
            Self::Day => 1440,
            Self::Quarter => 2160,
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self { rings: Range::ALL.map(|_| Ring::default()) }
    }
}

impl History {
    /// Adds a sample taken at `at`, in seconds of the Unix epoch. One that is older than the newest point is ignored: the clock
    /// was set back.
    pub fn add(&mut self, at: u64, values: Values) {
        for (range, ring) in Range::ALL.into_iter().zip(&mut self.rings) {
            ring.add(range, at, values);
        }
    }

    /// The points of a range that are not older than it at `now`, oldest first. Steps without a sample are missing.
    pub fn points(&self, range: Range, now: u64) -> impl Iterator<Item = &Point> {
        let from = now.saturating_sub(range.step_s() * range.points_max() as u64);
        let rings = Range::ALL.into_iter().zip(&self.rings);
        rings
            .filter(move |(it, _)| *it == range)
            .flat_map(|(_, ring)| &ring.points)
            .filter(move |point| point.at >= from)
    }

    /// The form on disk.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for ring in &self.rings {
            bytes.extend_from_slice(&u32::try_from(ring.points.len()).unwrap_or(u32::MAX).to_le_bytes());
            for Point { at, samples, values } in &ring.points {
                bytes.extend_from_slice(&at.to_le_bytes());
                bytes.extend_from_slice(&samples.to_le_bytes());
                values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
            }
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the form on disk.
    ///
    /// # Errors
    /// If the bytes are damaged, incomplete, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, HistoryError> {
        let content = bytes.strip_prefix(MAGIC.as_slice()).ok_or(HistoryError::Format)?;
        let (mut content, sum) = content.split_last_chunk::<4>().ok_or(HistoryError::Length)?;
        let covered = bytes.get(..bytes.len() - sum.len()).unwrap_or_default();
        if crc32c::crc32c(covered) != u32::from_le_bytes(*sum) {
            return Err(HistoryError::Checksum);
        }
        let mut history = Self::default();
        for (range, ring) in Range::ALL.into_iter().zip(&mut history.rings) {
            let count = u32::from_le_bytes(take(&mut content)?) as usize;
            if count > range.points_max() {
                return Err(HistoryError::Format);
            }
            for _ in 0..count {
                let at = u64::from_le_bytes(take(&mut content)?);
                let samples = u32::from_le_bytes(take(&mut content)?);
                let mut values = [0.0; SERIES_COUNT];
                for value in &mut values {
                    *value = f32::from_le_bytes(take(&mut content)?);
                }
                ring.points.push_back(Point { at, samples, values });
            }
        }
        if content.is_empty() { Ok(history) } else { Err(HistoryError::Length) }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], HistoryError> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(HistoryError::Length)?;
    *bytes = rest;
    Ok(*taken)
}

impl Ring {
    fn add(&mut self, range: Range, at: u64, values: Values) {
        let at = at - at % range.step_s();
        match self.points.back_mut() {
            Some(newest) if newest.at > at => {}
            Some(newest) if newest.at == at => {
                newest.samples = newest.samples.saturating_add(1);
                #[expect(clippy::cast_precision_loss, reason = "the number of samples of an hour is small")]
                let share = 1.0 / newest.samples as f32;
                for (mean, value) in newest.values.iter_mut().zip(values) {
                    *mean += (value - *mean) * share;
                }
            }
            _ => {
                if self.points.len() == range.points_max() {
                    self.points.pop_front();
                }
                self.points.push_back(Point { at, samples: 1, values });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(value: f32) -> Values {
        [value; SERIES_COUNT]
    }

    /// A history with a sample for each five seconds from `from` on, with the values 1, 2, 3, ….
    fn sampled(from: u64, count: u16) -> History {
        let mut history = History::default();
        (0..count).for_each(|i| history.add(from + 5 * u64::from(i), values(f32::from(i + 1))));
        history
    }

    #[test]
    fn coarse_points_are_the_means_of_fine_ones() {
        let history = sampled(3600, 24);
        assert_eq!(history.points(Range::Hour, 3720).count(), 24);
        let minutes: Vec<_> = history.points(Range::Day, 3720).map(|point| (point.at, point.values[0])).collect();
        assert_eq!(minutes, [(3600, 6.5), (3660, 18.5)]);
        let hours: Vec<_> = history.points(Range::Quarter, 3720).map(|point| (point.at, point.values[0])).collect();
        assert_eq!(hours.len(), 1);
        assert!((hours[0].1 - 12.5).abs() < 1e-4, "{hours:?}");
    }

    #[test]
    fn old_points_leave_and_times_before_the_newest_are_ignored() {
        let mut history = sampled(0, 800);
        assert_eq!(history.points(Range::Hour, 3995).count(), Range::Hour.points_max());
        assert_eq!(history.points(Range::Hour, 3995).next().unwrap().at, 400);
        assert_eq!(history.points(Range::Hour, 9000).count(), 0, "long ago");
        history.add(10, values(9.0));
        assert_eq!(history.points(Range::Hour, 3995).last().unwrap().at, 3995);
    }

    #[test]
    fn a_history_survives_its_form_on_disk() {
        for history in [History::default(), sampled(1_000_000, 2000)] {
            let bytes = history.encode();
            assert!(bytes.len() <= HISTORY_LEN_MAX);
            assert_eq!(History::decode(&bytes), Ok(history));
        }
    }

    #[test]
    fn damaged_and_foreign_bytes_are_refused() {
        let bytes = sampled(1_000_000, 30).encode();
        for end in 0..bytes.len() {
            assert!(History::decode(&bytes[..end]).is_err(), "cut after {end} bytes");
        }
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            assert!(History::decode(&damaged).is_err(), "byte {position}");
        }
        let mut other = bytes;
        other[7] = b'2';
        assert_eq!(History::decode(&other), Err(HistoryError::Format));
    }
}

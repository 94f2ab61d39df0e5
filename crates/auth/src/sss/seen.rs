//! Messages that were accepted a moment ago: none is good twice.

use super::SssError;
use crate::UnixTime;
use openssl::sha::sha256;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Most messages that are remembered: those of 2500 logins a second for the whole time that a message is good.
pub const SSS_SEEN_MAX: usize = 65_536;

/// The messages that were accepted and are still good, known by their random beginnings.
///
/// Without a key, an attacker can change the end of a message so that its seal still matches, but not its beginning.
#[derive(Debug)]
pub struct SssSeen {
    capacity: usize,
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Memory {
    /// By digest of the beginning: when the message is good no longer.
    until: HashMap<[u8; 32], UnixTime>,
    /// When to look next for those that are good no longer.
    look_at: UnixTime,
}

impl Default for SssSeen {
    fn default() -> Self {
        Self::new(SSS_SEEN_MAX)
    }
}

impl SssSeen {
    /// Remembers at most `capacity` messages. Further ones are refused until some of those are good no longer.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, memory: Mutex::new(Memory { until: HashMap::new(), look_at: UnixTime(0) }) }
    }

    /// Notes a message of the key `id` that begins with `random` and is good before `until`.
    ///
    /// # Errors
    /// If it was seen before, or the table is full.
    pub(crate) fn note(&self, id: i64, random: &[u8], until: UnixTime, now: UnixTime) -> Result<(), SssError> {
        let digest = sha256(&[id.to_be_bytes().as_slice(), random].concat());
        let mut memory = self.memory.lock();
        if memory.look_at <= now {
            memory.until.retain(|_, until| *until > now);
            memory.look_at = memory.until.values().min().copied().unwrap_or(until);
        }
        if memory.until.contains_key(&digest) {
            return Err(SssError::Replayed);
        }
        if memory.until.len() >= self.capacity {
            return Err(SssError::TooMany);
        }
        memory.until.insert(digest, until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime(1_000);

    #[test]
    fn a_message_is_good_once_and_forgotten_when_it_would_not_be_good_any_more() {
        let seen = SssSeen::new(2);
        let note = |id, random: &[u8], now: UnixTime| seen.note(id, random, NOW.plus(13), now);
        note(7, b"one", NOW).unwrap();
        assert!(matches!(note(7, b"one", NOW), Err(SssError::Replayed)));
        assert!(matches!(note(7, b"one", NOW.plus(12)), Err(SssError::Replayed)));
        note(8, b"one", NOW).unwrap();
        assert!(matches!(note(7, b"two", NOW.plus(12)), Err(SssError::TooMany)));
        seen.note(7, b"two", NOW.plus(26), NOW.plus(13)).unwrap();
        assert_eq!(seen.memory.lock().until.len(), 1);
    }
}

//! Messages between members, one per UDP datagram.

use forebay_cms::PATH_LEN_MAX;

/// Length of the fields before the path.
const HEADER_LEN: usize = 18;

/// Longest datagram that members send.
pub(crate) const DATAGRAM_LEN_MAX: usize = HEADER_LEN + PATH_LEN_MAX;

/// Begins each datagram; the last byte is the version.
const MAGIC: [u8; 4] = *b"FBC\x01";

const FLAG: u8 = 1;

/// In answers: there is data of the file.
const DATA_FLAG: u8 = 2;

/// A message between members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Datagram<'a> {
    /// This node lives. `is_active` if it takes new files; `weight` is its share.
    Probe { token: u64, is_active: bool, weight: u32 },
    /// The same, in answer to a probe.
    Alive { token: u64, is_active: bool, weight: u32 },
    /// Does the receiver have this file, or will it fetch it?
    Question { token: u64, path: &'a str },
    /// `is_held` if the sender has the file, or will fetch it, and clients may be sent there.
    Answer { token: u64, is_held: bool, has_data: bool },
    /// Many clients have this file open here: the receiver serves it, too.
    Share { path: &'a str },
}

impl<'a> Datagram<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, flags, token, weight, path) = match *self {
            Self::Probe { token, is_active, weight } => (1, u8::from(is_active) * FLAG, token, weight, ""),
            Self::Alive { token, is_active, weight } => (2, u8::from(is_active) * FLAG, token, weight, ""),
            Self::Question { token, path } => (3, 0, token, 0, path),
            Self::Answer { token, is_held, has_data } => {
                let (held, data) = (u8::from(is_held) * FLAG, u8::from(has_data) * DATA_FLAG);
                (4, held | data, token, 0, "")
            }
            Self::Share { path } => (5, 0, 0, 0, path),
        };
        let mut bytes = Vec::with_capacity(HEADER_LEN.saturating_add(path.len()));
        bytes.extend(MAGIC);
        bytes.extend([kind, flags]);
        bytes.extend(token.to_be_bytes());
        bytes.extend(weight.to_be_bytes());
        bytes.extend(path.as_bytes());
        bytes
    }

    /// `None` if it is not a datagram of a member, or one of another version.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (&[kind, flags], rest) = rest.split_first_chunk::<2>()?;
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let (weight, path) = rest.split_first_chunk::<4>()?;
        if *magic != MAGIC || path.len() > PATH_LEN_MAX {
            return None;
        }
        let (token, weight, flag) = (u64::from_be_bytes(*token), u32::from_be_bytes(*weight), flags & FLAG != 0);
        let path = std::str::from_utf8(path).ok()?;
        match kind {
            1 => Some(Self::Probe { token, is_active: flag, weight }),
            2 => Some(Self::Alive { token, is_active: flag, weight }),
            3 => Some(Self::Question { token, path }),
            4 => Some(Self::Answer { token, is_held: flag, has_data: flags & DATA_FLAG != 0 }),
            5 => Some(Self::Share { path }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_a_round_trip() {
        for message in [
            Datagram::Probe { token: 1, is_active: true, weight: 7 },
            Datagram::Alive { token: u64::MAX, is_active: false, weight: u32::MAX },
            Datagram::Question { token: 3, path: "/store/ü" },
            Datagram::Answer { token: 4, is_held: true, has_data: false },
            Datagram::Answer { token: 4, is_held: false, has_data: true },
            Datagram::Share { path: "/store/a" },
        ] {
            assert_eq!(Datagram::parse(&message.encode()), Some(message));
        }
    }

    #[test]
    fn the_length_of_a_path_is_limited() {
        let path = "x".repeat(PATH_LEN_MAX);
        let longest = Datagram::Share { path: &path }.encode();
        assert_eq!(longest.len(), DATAGRAM_LEN_MAX);
        assert!(Datagram::parse(&longest).is_some());
        assert_eq!(Datagram::parse(&[longest, vec![b'x']].concat()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), is_ours: bool) {
            let bytes = if is_ours { [&MAGIC[..], &bytes].concat() } else { bytes };
            if let Some(message) = Datagram::parse(&bytes) {
                let encoded = message.encode();
                prop_assert_eq!(Datagram::parse(&encoded), Some(message));
            }
        }
    }
}

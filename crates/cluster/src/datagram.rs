//! Messages between members, one per UDP datagram.

use crate::standing::{Census, Standing};
use forebay_cms::PATH_LEN_MAX;

/// Length of the fields before the path.
const HEADER_LEN: usize = 18;

/// Longest datagram that members send.
pub(crate) const DATAGRAM_LEN_MAX: usize = HEADER_LEN + PATH_LEN_MAX;

/// Begins each datagram; the last byte is the version.
const MAGIC: [u8; 4] = *b"FBC\x02";

const FLAG: u8 = 1;

/// In answers: there is data of the file.
const DATA_FLAG: u8 = 2;

/// In probes and their answers: a census follows.
const CENSUS_FLAG: u8 = 4;

/// In probes and their answers: clients may be sent to the sender for files that it has. Earlier versions do not send it: if one takes
/// no new files, it counts as if it served none.
const SERVES_FLAG: u8 = 8;

const CENSUS_LEN: usize = 24;

/// A message between members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Datagram<'a> {
    /// This node lives, and stands like this.
    Probe { token: u64, standing: Standing },
    /// The same, in answer to a probe.
    Alive { token: u64, standing: Standing },
    /// Does the receiver have this file, or will it fetch it?
    Question { token: u64, path: &'a str },
    /// `is_held` if the sender has the file, or will fetch it, and clients may be sent there.
    Answer { token: u64, is_held: bool, has_data: bool },
    /// Many clients have this file open here: the receiver serves it, too.
    Share { path: &'a str },
}

impl<'a> Datagram<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Probe { token, standing } => with_standing(1, token, standing),
            Self::Alive { token, standing } => with_standing(2, token, standing),
            Self::Question { token, path } => message([3, 0], token, 0, path.as_bytes()),
            Self::Answer { token, is_held, has_data } => {
                let (held, data) = (u8::from(is_held) * FLAG, u8::from(has_data) * DATA_FLAG);
                message([4, held | data], token, 0, &[])
            }
            Self::Share { path } => message([5, 0], 0, 0, path.as_bytes()),
        }
    }

    /// `None` if it is not a datagram of a member, or one of another version.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (&[kind, flags], rest) = rest.split_first_chunk::<2>()?;
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let (weight, rest) = rest.split_first_chunk::<4>()?;
        if *magic != MAGIC || rest.len() > PATH_LEN_MAX {
            return None;
        }
        let (token, weight, flag) = (u64::from_be_bytes(*token), u32::from_be_bytes(*weight), flags & FLAG != 0);
        let standing = || {
            let census = if flags & CENSUS_FLAG == 0 { None } else { Some(parse_census(rest)?) };
            Some(Standing { is_active: flag, is_serving: flag || flags & SERVES_FLAG != 0, weight, census })
        };
        let path = || std::str::from_utf8(rest).ok();
        match kind {
            1 => Some(Self::Probe { token, standing: standing()? }),
            2 => Some(Self::Alive { token, standing: standing()? }),
            3 => Some(Self::Question { token, path: path()? }),
            4 => Some(Self::Answer { token, is_held: flag, has_data: flags & DATA_FLAG != 0 }),
            5 => Some(Self::Share { path: path()? }),
            _ => None,
        }
    }
}

fn with_standing(kind: u8, token: u64, standing: Standing) -> Vec<u8> {
    let Standing { is_active, is_serving, weight, census } = standing;
    let numbers = census.map(|Census { held_bytes, foreign_bytes, duplicate_bytes }| {
        [held_bytes, foreign_bytes, duplicate_bytes].map(u64::to_be_bytes)
    });
    let (active, serves) = (u8::from(is_active) * FLAG, u8::from(is_serving) * SERVES_FLAG);
    let flags = active | serves | (u8::from(census.is_some()) * CENSUS_FLAG);
    message([kind, flags], token, weight, numbers.as_ref().map_or(&[], |numbers| numbers.as_flattened()))
}

fn message(kind_and_flags: [u8; 2], token: u64, weight: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_LEN.saturating_add(rest.len()));
    bytes.extend(MAGIC);
    bytes.extend(kind_and_flags);
    bytes.extend(token.to_be_bytes());
    bytes.extend(weight.to_be_bytes());
    bytes.extend(rest);
    bytes
}

fn parse_census(bytes: &[u8]) -> Option<Census> {
    let bytes: &[u8; CENSUS_LEN] = bytes.try_into().ok()?;
    let (numbers, _) = bytes.as_chunks::<8>();
    let number = |position: usize| numbers.get(position).map(|bytes| u64::from_be_bytes(*bytes));
    Some(Census { held_bytes: number(0)?, foreign_bytes: number(1)?, duplicate_bytes: number(2)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_a_round_trip() {
        let census = Some(Census { held_bytes: u64::MAX, foreign_bytes: 2, duplicate_bytes: 1 });
        let active = Standing { is_active: true, is_serving: true, weight: 7, census: None };
        for message in [
            Datagram::Probe { token: 1, standing: active },
            Datagram::Probe { token: 1, standing: Standing { is_active: false, census, ..active } },
            Datagram::Alive { token: u64::MAX, standing: Standing { weight: u32::MAX, census, ..Standing::default() } },
            Datagram::Question { token: 3, path: "/store/ü" },
            Datagram::Answer { token: 4, is_held: true, has_data: false },
            Datagram::Answer { token: 4, is_held: false, has_data: true },
            Datagram::Share { path: "/store/a" },
        ] {
            assert_eq!(Datagram::parse(&message.encode()), Some(message));
        }
    }

    #[test]
    fn active_members_of_earlier_versions_serve_and_inactive_ones_do_not() {
        for is_active in [true, false] {
            let standing = Standing { is_active, is_serving: false, weight: 7, census: None };
            let Some(Datagram::Probe { standing, .. }) = Datagram::parse(&with_standing(1, 1, standing)) else {
                panic!("not a probe")
            };
            assert_eq!((standing.is_active, standing.is_serving), (is_active, is_active));
        }
    }

    #[test]
    fn a_census_is_whole_or_refused() {
        let census = Some(Census { held_bytes: 3, foreign_bytes: 2, duplicate_bytes: 1 });
        let standing = Standing { is_active: true, is_serving: true, weight: 7, census };
        let probe = Datagram::Probe { token: 1, standing }.encode();
        assert_eq!(Datagram::parse(&probe[..probe.len() - 1]), None);
        assert_eq!(Datagram::parse(&[probe, vec![0]].concat()), None);
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

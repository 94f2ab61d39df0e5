//! The beginning of a data connection.

/// Longest challenge that a client returns.
pub const CHALLENGE_LEN_MAX: usize = 64;

/// Length of the numbers before the challenge.
const HEAD_LEN: usize = 8;

/// The first message on a data connection: the session of the open, and the challenge that its answer had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Greeting {
    pub session: u32,
    pub challenge: Vec<u8>,
}

/// The length of a challenge is negative, or above [`CHALLENGE_LEN_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a data connection begins with a challenge of {len} bytes")]
pub struct GreetingError {
    pub len: i32,
}

impl Greeting {
    /// The greeting at the beginning of `bytes`, and its length; `None` if it is not complete.
    ///
    /// # Errors
    /// See [`GreetingError`].
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, GreetingError> {
        let Some(&[a, b, c, d, e, f, g, h]) = bytes.first_chunk::<HEAD_LEN>() else { return Ok(None) };
        let (session, len) = (u32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]));
        let known_len = usize::try_from(len).ok().filter(|len| *len <= CHALLENGE_LEN_MAX);
        let end = HEAD_LEN + known_len.ok_or(GreetingError { len })?;
        let challenge = bytes.get(HEAD_LEN..end).map(<[u8]>::to_vec);
        Ok(challenge.map(|challenge| (Self { session, challenge }, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_of_libdcap_2_47_14_is_read() {
        let bytes = b"\0\0\0\x02\0\0\0\x10T28w2k4qu740DETLrest";
        let greeting = Greeting { session: 2, challenge: b"T28w2k4qu740DETL".to_vec() };
        for len in 0..24 {
            assert_eq!(Greeting::parse(&bytes[..len]), Ok(None));
        }
        assert_eq!(Greeting::parse(bytes), Ok(Some((greeting, 24))));
    }

    #[test]
    fn long_and_negative_lengths_are_refused_before_the_challenge_comes() {
        for (len, is_refused) in [(64_i32, false), (65, true), (-1, true)] {
            let head = [1_i32.to_be_bytes(), len.to_be_bytes()].concat();
            assert_eq!(Greeting::parse(&head).is_err(), is_refused, "{len}");
        }
    }
}

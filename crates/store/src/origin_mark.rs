//! What an origin's file looked like when its entry was created.

use forebay_types::{Endpoint, EndpointError};
use std::{fmt, str::FromStr};

/// What the origin's file looked like when its entry was created: the means to see that it has changed.
///
/// Kept as the text `v1 HOST:PORT MTIME` beside the record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginMark {
    /// The origin.
    pub endpoint: Endpoint,
    /// The file's time of last change there, in seconds of the Unix epoch.
    pub mtime: i64,
}

/// A text that is no [`OriginMark`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OriginMarkError {
    /// Not `v1` and two words.
    #[error("not of the form `v1 HOST:PORT MTIME`")]
    Form,
    /// The first word is no endpoint.
    #[error("not an endpoint")]
    Endpoint(#[from] EndpointError),
    /// The second word is no number.
    #[error("not a time")]
    Mtime(#[from] std::num::ParseIntError),
}

impl fmt::Display for OriginMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1 {} {}", self.endpoint, self.mtime)
    }
}

impl FromStr for OriginMark {
    type Err = OriginMarkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split(' ');
        let (Some("v1"), Some(endpoint), Some(mtime), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(OriginMarkError::Form);
        };
        Ok(Self { endpoint: endpoint.parse()?, mtime: mtime.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_are_written() {
        for (host, port, mtime) in [("origin", 1094, 1_700_000_000), ("::1", 11, 0), ("a.b", 65535, -1)] {
            let mark = OriginMark { endpoint: Endpoint::new(host, port), mtime };
            assert_eq!(mark.to_string().parse(), Ok(mark));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "v1", "v1 origin:1094", "v2 origin:1094 5", "v1 origin:1094 5 6", "v1  origin:1094 5"] {
            assert_eq!(text.parse::<OriginMark>(), Err(OriginMarkError::Form), "{text}");
        }
        assert!(matches!("v1 a/b 5".parse::<OriginMark>(), Err(OriginMarkError::Endpoint(_))));
        assert!(matches!("v1 origin:1094 soon".parse::<OriginMark>(), Err(OriginMarkError::Mtime(_))));
    }
}

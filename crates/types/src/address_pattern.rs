//! Which addresses are meant: by their text, or by network.

use crate::glob_matches;
use std::{fmt, net::IpAddr, str::FromStr};

/// A pattern of IP addresses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AddressPattern {
    /// Those whose text matches; `*` stands for any run of characters.
    Text(String),
    /// Those whose first `prefix_len` bits are those of `address`.
    Network {
        /// An address of the network; all further bits are zero.
        address: IpAddr,
        prefix_len: u8,
    },
}

/// A text that is not a pattern of addresses.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressPatternError {
    #[error(
        "`{0}` is not an address: write one, with `*` for any run of characters, or a network such as \"192.0.2.0/24\"; names are not looked up"
    )]
    NoAddress(String),
    #[error("`{text}` has bits after its prefix: the network of this length is {network}")]
    BitsBehindPrefix {
        text: String,
        /// The network that may be meant.
        network: AddressPattern,
    },
}

/// Longest pattern in bytes: no address is longer.
const PATTERN_LEN_MAX: usize = 64;

impl AddressPattern {
    /// Whether `address` is one of those. Addresses of IPv4 within IPv6 are those of IPv4.
    pub fn matches(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::Text(pattern) => glob_matches(pattern.as_bytes(), address.to_string().as_bytes()),
            Self::Network { address: network, prefix_len } => {
                address.is_ipv4() == network.is_ipv4() && masked(address, *prefix_len) == *network
            }
        }
    }

    fn network(text: &str, address: &str, prefix_len: &str) -> Result<Self, AddressPatternError> {
        let no_address = || AddressPatternError::NoAddress(text.escape_default().to_string());
        let address: IpAddr = address.parse().map_err(|_| no_address())?;
        let prefix_len: u8 = prefix_len.parse().map_err(|_| no_address())?;
        if prefix_len > if address.is_ipv4() { 32 } else { 128 } {
            return Err(no_address());
        }
        let network = Self::Network { address: masked(address, prefix_len), prefix_len };
        if masked(address, prefix_len) != address {
            return Err(AddressPatternError::BitsBehindPrefix { text: text.to_owned(), network });
        }
        Ok(network)
    }
}

impl FromStr for AddressPattern {
    type Err = AddressPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((address, prefix_len)) = text.split_once('/') {
            return Self::network(text, address, prefix_len);
        }
        let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'*');
        let is_good = !text.is_empty() && text.len() <= PATTERN_LEN_MAX && text.bytes().all(is_of_address);
        is_good
            .then(|| Self::Text(text.to_owned()))
            .ok_or_else(|| AddressPatternError::NoAddress(text.escape_default().to_string()))
    }
}

impl fmt::Display for AddressPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(pattern) => f.write_str(pattern),
            Self::Network { address, prefix_len } => write!(f, "{address}/{prefix_len}"),
        }
    }
}

/// An address with all bits after the first `prefix_len` cleared.
fn masked(address: IpAddr, prefix_len: u8) -> IpAddr {
    let prefix_len = u32::from(prefix_len);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::BITS.saturating_sub(prefix_len)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u128::BITS.saturating_sub(prefix_len)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_known_by_text_and_by_network() {
        for (pattern, inside, outside) in [
            ("10.1.*", "10.1.2.3", "10.2.1.3"),
            ("10.1.*", "::ffff:10.1.2.3", "::1"),
            ("2001:db8:*", "2001:db8::7", "2001:db9::7"),
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.0.0/16", "::ffff:10.1.0.1", "2001:db8::1"),
            ("192.0.2.1/32", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.0/31", "192.0.2.1", "192.0.2.2"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "::1", "127.0.0.1"),
            ("2001:db8::1/128", "2001:db8::1", "2001:db8::2"),
        ] {
            let parsed: AddressPattern = pattern.parse().unwrap();
            assert_eq!(parsed.to_string(), pattern);
            assert!(parsed.matches(inside.parse().unwrap()), "{pattern}: {inside}");
            assert!(!parsed.matches(outside.parse().unwrap()), "{pattern}: {outside}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "worker", "10.0.0.0/33", "::/129", "10.*/8", "10.0.0.0/", "/8", "10.0.0.0/-1", "10.0.0.0/8/8"]
        {
            let error = text.parse::<AddressPattern>().unwrap_err();
            assert!(matches!(error, AddressPatternError::NoAddress(_)), "{text}: {error}");
        }
        let error = "10.1.2.3/16".parse::<AddressPattern>().unwrap_err().to_string();
        assert!(error.contains("10.1.0.0/16"), "{error}");
    }
}

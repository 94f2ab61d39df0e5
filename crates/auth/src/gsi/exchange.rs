//! The Diffie-Hellman exchange of the handshake: groups, public values, the shared secret.

use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::dh::Dh;
use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::pkey::{HasParams, Params, Private};
use openssl::sha::sha256;
use parking_lot::Mutex;

use zeroize::Zeroizing;

/// Shortest prime that is accepted without a switch, bits.
pub const GROUP_BITS_MIN: i32 = 2048;

/// Shortest prime that is accepted at all: stock servers of XRootD 5 and dCache send such, bits.
pub const WEAK_GROUP_BITS_MIN: i32 = 512;

/// Longest prime that is accepted, bits.
pub const GROUP_BITS_MAX: i32 = 8192;

/// Longest text of a group and a public value, bytes.
const VALUES_LEN_MAX: usize = 8 << 10;

/// Rounds of the test for primes: a number that is none passes one with a probability of a quarter at most. The library's own test
/// does 128 of them, seconds of work, for numbers without a signature; a server has signed its group.
const PRIME_ROUNDS: usize = 16;

/// Groups that are remembered as good: each server has one, and most share it.
const GROUPS_REMEMBERED: usize = 64;

const VALUE_START: &str = "---BPUB---";
const VALUE_END: &str = "---EPUB---";

/// The group ffdhe3072 of RFC 7919, which our servers use.
const FFDHE3072: &[u8] = b"-----BEGIN DH PARAMETERS-----
MIIBiAKCAYEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEfz9zeNVs7ZRkDW7w09N75nAI4YbRvydbmyQd62R0mkff3
7lmMsPrBhtkcrv4TCYUTknC0EwyTvEN5RPT9RFLi103TZPLiHnH1S/9croKrnJ32
nuhtK8UiNjoNq8Uhl5sN6todv5pC1cRITgq80Gv6U93vPBsg7j/VnXwl5B0rZsYu
N///////////AgEC
-----END DH PARAMETERS-----
";

/// Why the peer's group or public value is not used.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("Diffie-Hellman values that cannot be read")]
    Form,
    #[error(
        "a Diffie-Hellman group of {bits} bits, which is not used; for servers that know small ones only \
         (XRootD 5 and dCache: 512 bits) there is a switch to allow weak groups"
    )]
    Group { bits: i32 },
    #[error("a Diffie-Hellman value out of its range")]
    Value,
    #[error("the crypto library failed to exchange keys")]
    Library(#[from] ErrorStack),
}

/// The groups whose prime was tested: that takes a tenth of a second, and servers use the same group again and again.
#[derive(Debug, Default)]
pub struct KnownGroups {
    digests: Mutex<Vec<Vec<u8>>>,
}

/// Our half of an exchange.
pub(crate) struct Exchange {
    key: Dh<Private>,
}

impl Exchange {
    /// A new half in the server's group. Costs a millisecond.
    pub(crate) fn new() -> Result<Self, ErrorStack> {
        Ok(Self { key: Dh::params_from_pem(FFDHE3072)?.generate_key()? })
    }

    /// A new half in the group that a server has sent with its value.
    pub(crate) fn with(values: &PeerValues, groups: &KnownGroups, allow_weak: bool) -> Result<Self, ExchangeError> {
        let group = values.group.as_ref().ok_or(ExchangeError::Form)?;
        check_group(group, groups, allow_weak)?;
        Ok(Self { key: same_group(group)?.generate_key()? })
    }

    /// Group and public value as they are sent.
    pub(crate) fn values(&self) -> Result<Vec<u8>, ErrorStack> {
        let mut text = same_group(&self.key)?.params_to_pem()?;
        text.extend_from_slice(VALUE_START.as_bytes());
        text.extend_from_slice(self.key.public_key().to_hex_str()?.as_bytes());
        text.extend_from_slice(VALUE_END.as_bytes());
        Ok(text)
    }

    /// A name of a peer's value: that of its negative, which leads to the same secret, is the same.
    pub(crate) fn name_of(&self, values: &PeerValues) -> Result<[u8; 32], ErrorStack> {
        let mut negative = BigNum::new()?;
        negative.checked_sub(self.key.prime_p(), &values.value)?;
        let lesser = if negative < values.value { &negative } else { &values.value };
        Ok(sha256(&lesser.to_vec()))
    }

    /// The shared secret; `is_padded` to the length of the prime with zeros in front, as all do who can.
    pub(crate) fn secret(&self, values: &PeerValues, is_padded: bool) -> Result<Zeroizing<Vec<u8>>, ExchangeError> {
        let prime = self.key.prime_p();
        let last = difference(prime, 1)?;
        if values.value <= BigNum::from_u32(1)? || values.value >= last {
            return Err(ExchangeError::Value);
        }
        // Not the library's derivation: that also raises the peer's value to the order of the group, which for a safe prime
        // proves nothing that matters here and takes three quarters of the time.
        let mut exponent = self.key.private_key().to_owned()?;
        exponent.set_const_time();
        let mut secret = BigNum::new()?;
        let outcome = secret.mod_exp(&values.value, &exponent, prime, &mut *BigNumContext::new()?);
        exponent.clear();
        outcome?;
        let len = if is_padded { prime.num_bytes() } else { secret.num_bytes() };
        let bytes = secret.to_vec_padded(len).map(Zeroizing::new);
        secret.clear();
        Ok(bytes?)
    }
}

/// The peer's public value, and the group that came with it.
pub(crate) struct PeerValues {
    group: Option<Dh<Params>>,
    value: BigNum,
}

impl PeerValues {
    /// Reads what [`Exchange::values`] of a server writes.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, ExchangeError> {
        let (group, value) = split(text)?;
        let group = Dh::params_from_pem(group.as_bytes()).map_err(|_| ExchangeError::Form)?;
        Ok(Self { group: Some(group), value })
    }

    /// See [`PeerValues::parse`]; of a client, whose group is the one that we have sent.
    pub(crate) fn parse_value(text: &[u8]) -> Result<Self, ExchangeError> {
        Ok(Self { group: None, value: split(text)?.1 })
    }
}

fn split(text: &[u8]) -> Result<(&str, BigNum), ExchangeError> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= VALUES_LEN_MAX);
    let (group, rest) = text.and_then(|text| text.split_once(VALUE_START)).ok_or(ExchangeError::Form)?;
    let (value, _) = rest.split_once(VALUE_END).ok_or(ExchangeError::Form)?;
    if value.is_empty() || !value.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(ExchangeError::Form);
    }
    Ok((group, BigNum::from_hex_str(value)?))
}

fn check_group(group: &Dh<Params>, groups: &KnownGroups, allow_weak: bool) -> Result<(), ExchangeError> {
    let (prime, generator) = (group.prime_p(), group.generator());
    let bits = prime.num_bits();
    let bits_min = if allow_weak { WEAK_GROUP_BITS_MIN } else { GROUP_BITS_MIN };
    if !(bits_min..=GROUP_BITS_MAX).contains(&bits) {
        return Err(ExchangeError::Group { bits });
    }
    if *generator <= *BigNum::from_u32(1)? || *generator >= *difference(prime, 1)? {
        return Err(ExchangeError::Group { bits });
    }
    let digest = hash(MessageDigest::sha256(), &prime.to_vec())?.to_vec();
    let mut known = groups.digests.lock();
    if known.contains(&digest) {
        return Ok(());
    }
    drop(known);
    if *prime != *Dh::params_from_pem(FFDHE3072)?.prime_p() && !is_prime(prime)? {
        return Err(ExchangeError::Group { bits });
    }
    known = groups.digests.lock();
    if known.len() == GROUPS_REMEMBERED {
        known.remove(0);
    }
    known.push(digest);
    Ok(())
}

/// The test of Miller and Rabin with random bases.
fn is_prime(number: &BigNumRef) -> Result<bool, ErrorStack> {
    if !number.is_bit_set(0) {
        return Ok(false);
    }
    let (one, last, mut context) = (BigNum::from_u32(1)?, difference(number, 1)?, BigNumContext::new()?);
    let twos = (0..last.num_bits()).find(|&bit| last.is_bit_set(bit)).unwrap_or_default();
    let mut odd = BigNum::new()?;
    odd.rshift(&last, twos)?;
    let (mut base, mut power, mut square) = (BigNum::new()?, BigNum::new()?, BigNum::new()?);
    for _ in 0..PRIME_ROUNDS {
        // From 2 to the number less 2.
        difference(number, 3)?.rand_range(&mut base)?;
        base.add_word(2)?;
        power.mod_exp(&base, &odd, number, &mut context)?;
        let mut has_passed = power == one || power == last;
        for _ in 1..twos {
            square.mod_sqr(&power, number, &mut context)?;
            std::mem::swap(&mut power, &mut square);
            has_passed |= power == last;
        }
        if !has_passed {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_group<T: HasParams>(key: &Dh<T>) -> Result<Dh<Params>, ErrorStack> {
    Dh::from_pqg(key.prime_p().to_owned()?, None, key.generator().to_owned()?)
}

fn difference(number: &BigNumRef, less: u32) -> Result<BigNum, ErrorStack> {
    let mut number = number.to_owned()?;
    number.sub_word(less)?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weak() -> Exchange {
        Exchange { key: Dh::generate_params(512, 2).unwrap().generate_key().unwrap() }
    }

    #[test]
    fn both_sides_come_to_the_same_secret() {
        let server = Exchange::new().unwrap();
        let values = PeerValues::parse(&server.values().unwrap()).unwrap();
        let client = Exchange::with(&values, &KnownGroups::default(), false).unwrap();
        let answer = PeerValues::parse_value(&client.values().unwrap()).unwrap();
        for is_padded in [true, false] {
            assert_eq!(client.secret(&values, is_padded).unwrap(), server.secret(&answer, is_padded).unwrap());
        }
        assert_eq!(server.secret(&answer, true).unwrap().len(), 384);
    }

    #[test]
    fn secrets_are_padded_in_front_only_where_asked() {
        let server = weak();
        let short = loop {
            let client = Exchange { key: same_group(&server.key).unwrap().generate_key().unwrap() };
            let answer = PeerValues::parse_value(&client.values().unwrap()).unwrap();
            let secret = server.secret(&answer, false).unwrap();
            if secret.len() < 64 {
                break (secret, server.secret(&answer, true).unwrap());
            }
        };
        let (bare, padded) = short;
        assert_eq!(padded.len(), 64);
        assert!(padded.ends_with(&bare) && padded.starts_with(&[0]));
    }

    #[test]
    fn weak_groups_need_the_switch_and_bad_ones_are_refused() {
        let values = PeerValues::parse(&weak().values().unwrap()).unwrap();
        let groups = KnownGroups::default();
        assert!(matches!(Exchange::with(&values, &groups, false), Err(ExchangeError::Group { bits: 512 })));
        let client = Exchange::with(&values, &groups, true).unwrap();
        assert_eq!(client.secret(&values, true).unwrap().len(), 64);
        let good = Dh::params_from_pem(FFDHE3072).unwrap();
        let mut composite = good.prime_p().to_owned().unwrap();
        composite.sub_word(2).unwrap();
        let two = || BigNum::from_u32(2).unwrap();
        let one = BigNum::from_u32(1).unwrap();
        let prime = good.prime_p().to_owned().unwrap();
        for group in [Dh::from_pqg(composite, None, two()), Dh::from_pqg(prime, None, one)] {
            let values = PeerValues { group: Some(group.unwrap()), value: two() };
            let outcome = Exchange::with(&values, &KnownGroups::default(), true);
            assert!(matches!(outcome, Err(ExchangeError::Group { bits: 3072 })));
        }
    }

    #[test]
    fn values_that_reveal_the_secret_and_other_texts_are_refused() {
        let server = Exchange::new().unwrap();
        let prime = server.key.prime_p().to_owned().unwrap();
        let below = difference(&prime, 1).unwrap();
        for value in [BigNum::new().unwrap(), BigNum::from_u32(1).unwrap(), below, prime] {
            let values = PeerValues { group: None, value };
            assert!(matches!(server.secret(&values, true), Err(ExchangeError::Value)));
        }
        let long = format!("---BPUB---{}---EPUB---", "A".repeat(VALUES_LEN_MAX));
        for text in
            ["", "---BPUB---", "---BPUB------EPUB---", "---BPUB---XY---EPUB---", "---BPUB----1---EPUB---", &long]
        {
            assert!(matches!(PeerValues::parse_value(text.as_bytes()), Err(ExchangeError::Form)), "{text:.40}");
        }
        assert!(matches!(PeerValues::parse(b"---BPUB---12---EPUB---"), Err(ExchangeError::Form)));
    }

    #[test]
    fn primes_are_recognized_and_that_of_our_group_is_safe() {
        let group = Dh::params_from_pem(FFDHE3072).unwrap();
        let mut half = BigNum::new().unwrap();
        half.rshift1(group.prime_p()).unwrap();
        assert_eq!(group.prime_p().num_bits(), 3072);
        assert!(is_prime(group.prime_p()).unwrap() && is_prime(&half).unwrap());
        let is_prime = |number: u32| is_prime(&BigNum::from_u32(number).unwrap()).unwrap();
        assert!([5, 7, 97, 65_537, 2_147_483_647].into_iter().all(is_prime));
        // The last four are numbers of Carmichael, which fool the test of Fermat.
        assert!(![6, 9, 15, 65_535, 561, 1_729, 41_041, 825_265].into_iter().any(is_prime));
    }
}

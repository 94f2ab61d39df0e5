//! Writing DER, as much as lists and attribute certificates of tests need.

use forebay_auth::UnixTime;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::sign::Signer;

/// sha256WithRSAEncryption as an AlgorithmIdentifier.
const SHA256_WITH_RSA: &[u8] = &[0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 11, 5, 0];

/// One element.
pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let mut out = vec![tag];
    match u8::try_from(len) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            out.push(0x84);
            out.extend(u32::try_from(len).unwrap().to_be_bytes());
        }
    }
    out.extend(content);
    out
}

/// An element of elements.
pub(crate) fn elements(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    element(tag, &parts.concat())
}

pub(crate) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    elements(0x30, parts)
}

pub(crate) fn integer(magnitude: &[u8]) -> Vec<u8> {
    let sign = if magnitude.first().is_some_and(|first| first & 0x80 != 0) { &[0][..] } else { &[] };
    element(2, &[sign, magnitude].concat())
}

pub(crate) fn oid(text: &str) -> Vec<u8> {
    element(6, openssl::asn1::Asn1Object::from_str(text).unwrap().as_slice())
}

pub(crate) fn generalized_time(time: UnixTime) -> Vec<u8> {
    let (days, second) = (time.0.div_euclid(86_400), time.0.rem_euclid(86_400));
    let (mut year, mut day) = (1970, days);
    let days_of = |year: i64| 365 + i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let months = [31, days_of(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    let (month, day) = (month + 1, day + 1);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    element(0x18, format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z").as_bytes())
}

/// A signed structure: its content, an algorithm and a signature.
pub(crate) fn signed(to_be_signed: &[u8], key: &PKey<Private>) -> Vec<u8> {
    let mut signer = Signer::new(MessageDigest::sha256(), key).unwrap();
    let signature = signer.sign_oneshot_to_vec(to_be_signed).unwrap();
    let bits = element(3, &[&[0], signature.as_slice()].concat());
    sequence(&[to_be_signed.to_vec(), algorithm(), bits])
}

pub(crate) fn algorithm() -> Vec<u8> {
    SHA256_WITH_RSA.to_vec()
}

//! Messages of the protocol sss: as they come, and with items of any kind under a good seal.
//!
//! The first byte chooses; for sealed items the second is the message's option.

#![no_main]

use blowfish::Blowfish;
use cfb_mode::{Encryptor, cipher::KeyIvInit};
use forebay_auth::{Keytab, SssPeer, SssSeen, SssStep, UnixTime, verify_sss_message};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const KEY: [u8; 16] = [0x11; 16];
const NOW: UnixTime = UnixTime(1_700_000_000);

static KEYTAB: LazyLock<Keytab> = LazyLock::new(|| {
    let line = format!("0 N:7 n:key+ u:anybody g:anygroup k:{}", "11".repeat(16));
    Keytab::parse(line.as_bytes()).expect("a keytab")
});

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

fn sealed(option: u8, items: &[u8]) -> Vec<u8> {
    let time = u32::try_from(NOW.0 - 1_222_183_880).expect("a time").to_be_bytes();
    let mut inner = [&[9; 32], time.as_slice(), &[0, 0, 0, option], items].concat();
    inner.extend(crc32(&inner).to_be_bytes());
    Encryptor::<Blowfish>::new_from_slices(&KEY, &[0; 8]).expect("a key").encrypt(&mut inner);
    [b"sss\0\0\0\x000\0\0\0\0\0\0\0\x07".as_slice(), &inner].concat()
}

fuzz_target!(|input: &[u8]| {
    let [choice, option, rest @ ..] = input else { return };
    let message = if choice % 2 == 0 { rest.to_vec() } else { sealed(option % 3, rest) };
    let peer = SssPeer { address: ([192, 0, 2, 7], 4711).into(), host: "host" };
    match verify_sss_message(&message, &KEYTAB, 13, &SssSeen::default(), &peer, "login", NOW) {
        Ok(SssStep::Done(identity)) => assert!(identity.to_string().chars().all(|c| !c.is_control())),
        Ok(SssStep::Answer(answer)) => assert!(!answer.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

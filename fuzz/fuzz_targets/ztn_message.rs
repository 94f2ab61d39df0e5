//! Messages and parameters of the protocol ztn, and those of unix: what is read is written to the same.

#![no_main]

use forebay_auth::{ZtnParams, parse_unix_message, parse_ztn_message, ztn_message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(token) = parse_ztn_message(input) {
        let written = ztn_message(&token, ZtnParams::default()).expect("it was short enough");
        assert_eq!(parse_ztn_message(&written), Ok(token));
    }
    if let Ok(params) = ZtnParams::parse(&String::from_utf8_lossy(input)) {
        assert_eq!(ZtnParams::parse(&params.to_text()), Ok(params));
    }
    if let Ok(identity) = parse_unix_message(input, "host") {
        assert!(identity.to_string().chars().all(|c| !c.is_control()));
    }
});

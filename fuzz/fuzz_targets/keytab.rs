//! Keytabs: reading one never panics, and no secret is shown.

#![no_main]

use forebay_auth::{Keytab, UnixTime};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    match Keytab::parse(input) {
        Ok(keytab) => {
            let _ = keytab.current(None, UnixTime(0));
            assert!(!keytab.keys().is_empty());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

//! Lists of security protocols, as servers send them: what is read is written to the same, and each part is read.

#![no_main]

use forebay_auth::{SssParams, parse_offers, write_offers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(offers) = parse_offers(input) else { return };
    if let Ok(written) = write_offers(&offers) {
        assert_eq!(parse_offers(written.as_bytes()), Ok(offers.clone()));
    }
    for offer in &offers {
        if let Ok(params) = SssParams::parse(&offer.params) {
            assert_eq!(SssParams::parse(&params.to_text()).expect("it is of the form"), params);
        }
    }
});

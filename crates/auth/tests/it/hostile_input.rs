//! No input from a peer, an issuer or a file makes a parser panic.

use forebay_auth::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn no_input_makes_a_parser_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        text in ".{0,200}",
        list in "(&P=)?[a-z&P=,:]{0,40}",
        keytab in "[01] ([a-zA-Z]:[ -~]{0,9} ){0,5}",
    ) {
        for bytes in [&bytes, text.as_bytes(), list.as_bytes(), keytab.as_bytes()] {
            let _ = parse_offers(bytes);
            let _ = Keytab::parse(bytes);
            let _ = KeySet::parse(bytes);
            let _ = parse_discovery(bytes, &text);
            let _ = parse_ztn_message(bytes);
            let _ = parse_ztn_message(&[b"ztn\0\0T".as_slice(), bytes].concat());
            let _ = parse_unix_message(bytes, "h");
            let _ = parse_unix_message(&[b"unix\0".as_slice(), bytes].concat(), "h");
        }
        let _ = (discovery_urls(&text), max_age(&text));
        let number = serde_json::Value::from(text.as_str());
        let _ = KeySet::parse(format!(r#"{{"keys":[{{"kty":"RSA","n":{number},"e":{number}}}]}}"#).as_bytes());
    }
}

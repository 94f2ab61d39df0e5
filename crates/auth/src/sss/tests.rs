//! What messages prove, those of stock clients among them.

use super::cipher;
use super::*;
use crate::{Identity, UnixTime};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

/// The keytab with which the stock client made the messages below.
const STOCK_KEYTAB: &str = "0 u:jane g:atlas n:testkey N:7710874753535311873 c:1795327932 e:0 f:0 \
                            k:c5b9564a2286e34f85c2b678535902e36605827aadd540f3491157f1dfb3c58f";

/// What `xrdfs` of XRootD 5.5.3 at 127.0.0.1 sent to a server with `sss,0.13:…`, and one with `sss,0.+13:…`.
const STOCK_V1: &str = "73737300000000306b0287bc000000018bc543a0e422429a495acc5d9ac23209aa7c69d21912f863717ef7c7fb4a83e80045 \
    b6f3068f7a464b09e9df5e0cac57b67f85d6eaf98e33970d78ece3f6a48bba5e11ad4d9a1a484e8359b1015de2dfd61724c6 \
    0d9a54cf2a48b3a54fa9ae9dd583ffd20c811aeca66bb3003d89adc72eeb56e7280b71df6050d66868fe1b5d1e96c936c140 \
    996b409f2bbdd7890529f2e05848704b454dbc4c0457a556ee0193a1f71d7612198425";
const STOCK_V2: &str = "73737300000008306b0287bc00000001746573746b6579005d719e555a7494a1e0779fa631e4a18b72de38142f0a0f454c76 \
    6892b162c2367d1b5f19398877bc8153dffb6bc777e5b53b1e2755328b86cc1777d8347f3baa47bfaa8741ff1285875e2404 \
    f5ef7920670b677ed384b9ffbcc17d7a2cbf8b2542cdfa56e8aee0b7349f82aa1668ce50663a7d2b9b18c6b0dcc0f68635c8 \
    846e2860ad47cc161e8e5d83146f84c5f22fa1a694c5076389e3480f96028f7a7533d6ba2420725df27ccf79b05d603f2039";

const STOCK_TIME: UnixTime = UnixTime(1_795_329_132);

const NOW: UnixTime = UnixTime(1_700_000_000);
const LIFETIME: u32 = 13;

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// An address with the port that all our clients come from.
fn at(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().unwrap(), 4711)
}

fn peer(address: &str) -> SssPeer<'static> {
    SssPeer { address: at(address), host: "wn1.site.org" }
}

fn keytab(line: &str) -> Keytab {
    Keytab::parse(format!("0 N:7 k:00112233445566778899aabbccddeeff {line}").as_bytes()).unwrap()
}

fn params(is_v2: bool) -> SssParams {
    SssParams { is_v2, lifetime_seconds: LIFETIME, keytab: String::new() }
}

fn message(keytab: &Keytab, address: &str) -> Vec<u8> {
    sss_message(&keytab.keys()[0], "joe", at(address), &params(true), NOW).unwrap()
}

fn verify(message: &[u8], keytab: &Keytab, address: &str) -> Result<SssStep, SssError> {
    verify_sss_message(message, keytab, LIFETIME, &SssSeen::default(), &peer(address), "login", NOW)
}

fn identity(message: &[u8], keytab: &Keytab) -> Identity {
    match verify(message, keytab, "192.0.2.7").unwrap() {
        SssStep::Done(identity) => *identity,
        SssStep::Answer(_) => panic!("it did not ask"),
    }
}

/// A message as clients make it, of items of our own.
fn with_items(keytab: &Keytab, option: u8, items: &[(u8, &[u8])]) -> Vec<u8> {
    let mut inner = vec![9; 32];
    inner.extend(u32::try_from(NOW.0 - 1_222_183_880).unwrap().to_be_bytes());
    inner.extend([0, 0, 0, option]);
    for (kind, value) in items {
        inner.push(*kind);
        inner.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        inner.extend(*value);
    }
    let sealed = cipher::seal(&keytab.keys()[0].secret, &inner).unwrap();
    [b"sss\0\0\0\x000\0\0\0\0\0\0\0\x07".as_slice(), &sealed].concat()
}

#[test]
fn messages_of_stock_clients_prove_whom_their_key_is_for() {
    let keytab = Keytab::parse(STOCK_KEYTAB.as_bytes()).unwrap();
    for (hex, port) in [(STOCK_V1, 57804), (STOCK_V2, 44774)] {
        let verify = |address: (&str, u16), now| {
            let address = SocketAddr::new(address.0.parse().unwrap(), address.1);
            let peer = SssPeer { address, host: "wn1.site.org" };
            verify_sss_message(&bytes(hex), &keytab, LIFETIME, &SssSeen::default(), &peer, "root", now)
        };
        let Ok(SssStep::Done(identity)) = verify(("127.0.0.1", port), STOCK_TIME) else { panic!("refused") };
        assert_eq!(identity.to_string(), "sss:jane atlas at wn1.site.org");
        assert_eq!(identity.issuer.as_deref(), Some("testkey"));
        assert!(matches!(verify(("127.0.0.2", port), STOCK_TIME), Err(SssError::Host { .. })));
        assert!(matches!(verify(("127.0.0.1", port + 1), STOCK_TIME), Err(SssError::Host { .. })));
        assert!(matches!(verify(("127.0.0.1", port), STOCK_TIME.plus(14)), Err(SssError::Expired { .. })));
    }
}

#[test]
fn our_messages_prove_whom_their_key_is_for() {
    let keytab = self::keytab("n:name8xxx u:jane g:atlas");
    for is_v2 in [false, true] {
        for address in ["192.0.2.7", "2001:db8::7"] {
            let sent = sss_message(&keytab.keys()[0], "joe", at(address), &params(is_v2), NOW).unwrap();
            assert!(matches!(verify(&sent, &keytab, address), Ok(SssStep::Done(_))), "{address}");
            assert!(matches!(verify(&sent, &keytab, "192.0.2.8"), Err(SssError::Host { .. })), "{address}");
        }
    }
    // Nothing that is sealed is shorter than stock servers expect.
    assert_eq!(message(&keytab, "::1").len(), 16 + 16 + 128 + 4 + 4);
    for (name, padded_len) in [("a", 8), ("sevenxx", 8), ("eightxxx", 16)] {
        let keytab = self::keytab(&format!("n:{name}"));
        let sent = message(&keytab, "192.0.2.7");
        assert_eq!((usize::from(sent[6]), sent[16 + padded_len - 1]), (padded_len, 0), "{name}");
        assert!(verify(&sent, &keytab, "192.0.2.7").is_ok(), "{name}");
    }
}

#[test]
fn messages_are_good_for_their_lifetime() {
    let keytab = keytab("u:jane");
    let sent = message(&keytab, "192.0.2.7");
    for (seconds, is_good) in [(-13, false), (-12, true), (12, true), (13, false)] {
        let now = NOW.plus(seconds);
        let result = verify_sss_message(&sent, &keytab, LIFETIME, &SssSeen::default(), &peer("192.0.2.7"), "", now);
        assert_eq!(result.is_ok(), is_good, "{seconds}");
    }
}

#[test]
fn keys_must_be_known_and_valid() {
    let sent = message(&keytab("u:jane"), "192.0.2.7");
    let other = Keytab::parse(b"0 N:8 k:00112233445566778899aabbccddeeff").unwrap();
    assert!(matches!(verify(&sent, &other, "192.0.2.7"), Err(SssError::UnknownKey { id: 7 })));
    let expired = keytab(&format!("e:{}", NOW.0));
    assert!(matches!(verify(&sent, &expired, "192.0.2.7"), Err(SssError::UnknownKey { id: 7 })));
    let other = Keytab::parse(b"0 N:7 k:ffeeddccbbaa99887766554433221100").unwrap();
    assert!(matches!(verify(&sent, &other, "192.0.2.7"), Err(SssError::Seal { id: 7 })));
}

#[test]
fn holders_say_who_they_are_only_where_their_key_lets_them() {
    let items: &[(u8, &[u8])] = &[
        (0x20, b"[::192.0.2.7]:4711\0"),
        (0x01, b"joe\0"),
        (0x04, b"cms users\0"),
        (0x05, b"/cms/Role=production,/cms,bad\0"),
    ];
    let of = |line: &str| {
        let keytab = keytab(line);
        identity(&with_items(&keytab, 0, items), &keytab)
    };
    let fixed = of("u:jane g:atlas");
    assert_eq!(
        (fixed.user.as_deref(), fixed.groups, fixed.attributes),
        (Some("jane"), vec!["atlas".to_owned()], vec![])
    );
    let free = of("u:anybody g:anygroup");
    assert_eq!(
        (free.user.as_deref(), free.groups.as_slice()),
        (Some("joe"), ["cms".to_owned(), "users".to_owned()].as_slice())
    );
    let attributes: Vec<_> = free.attributes.iter().map(ToString::to_string).collect();
    assert_eq!(attributes, ["/cms/Role=production", "/cms"]);
    assert!(of("u:allusers g:usrgroup").groups.is_empty());
    assert_eq!(of("g:anygroup").user.as_deref(), Some("nobody"));
}

#[test]
fn messages_come_from_where_they_were_made() {
    let keytab_here = keytab("n:key u:jane");
    let anywhere = keytab("n:key+ u:jane");
    let is_good = |host: &[u8], keytab: &Keytab, from: &str| {
        verify(&with_items(keytab, 0, &[(0x01, b"joe\0"), (0x20, host)]), keytab, from).is_ok()
    };
    for (host, from) in [
        (b"[::ffff:192.0.2.7]\0".as_slice(), "192.0.2.7"),
        (b"[::192.0.2.7]\0", "::ffff:192.0.2.7"),
        (b"[192.0.2.7]:4711\0", "192.0.2.7"),
        (b"[::1]\0", "::1"),
        (b"WN1.site.org\0", "192.0.2.7"),
    ] {
        assert!(is_good(host, &keytab_here, from), "{host:?}");
        assert!(is_good(host, &anywhere, "198.51.100.1"), "{host:?}");
    }
    for (host, from) in [
        (b"[::ffff:192.0.2.8]\0".as_slice(), "192.0.2.7"),
        (b"[::1]\0", "0.0.0.2"),
        (b"[192.0.2.7]:4712\0", "192.0.2.7"),
        (b"[192.0.2.7]4711\0", "192.0.2.7"),
        (b"[nonsense]\0", "192.0.2.7"),
        (b"other.site.org\0", "192.0.2.7"),
    ] {
        assert!(!is_good(host, &keytab_here, from), "{host:?}");
    }
    let silent = with_items(&keytab_here, 0, &[(0x01, b"joe\0")]);
    assert!(matches!(verify(&silent, &keytab_here, "192.0.2.7"), Err(SssError::Host { .. })));
}

#[test]
fn clients_may_ask_how_they_are_called_and_the_answer_proves_nothing() {
    let keytab = keytab("n:key+ u:jane");
    let Ok(SssStep::Answer(answer)) = verify(&with_items(&keytab, 1, &[]), &keytab, "192.0.2.7") else {
        panic!("refused")
    };
    let inner = cipher::open(&keytab.keys()[0].secret, &answer[16..]).unwrap();
    assert_eq!(&inner[40..], b"\x10\0\x06login\0");
    assert!(matches!(verify(&answer, &keytab, "192.0.2.7"), Err(SssError::Reflected)));
}

#[test]
fn no_message_is_good_twice_unless_it_was_refused() {
    let keytab = keytab("n:key+ u:jane");
    let seen = SssSeen::default();
    let again = |message: &[u8], address| {
        verify_sss_message(message, &keytab, LIFETIME, &seen, &peer(address), "login", NOW.plus(12))
    };
    for message in [message(&keytab, "192.0.2.7"), with_items(&keytab, 1, &[])] {
        assert!(again(&message, "192.0.2.7").is_ok());
        assert!(matches!(again(&message, "198.51.100.1"), Err(SssError::Replayed)));
        // What nothing protects does not make it another message.
        let changed = [b"sss\0xx".as_slice(), &message[6..]].concat();
        assert!(matches!(again(&changed, "192.0.2.7"), Err(SssError::Replayed)));
    }
    let keytab = self::keytab("n:key u:jane");
    let (seen, sent) = (SssSeen::default(), message(&keytab, "192.0.2.7"));
    let from = |address| verify_sss_message(&sent, &keytab, LIFETIME, &seen, &peer(address), "login", NOW);
    assert!(matches!(from("198.51.100.1"), Err(SssError::Host { .. })));
    assert!(from("192.0.2.7").is_ok());
}

#[test]
fn a_proof_ends_with_its_key() {
    for (end, ends) in [("e:1700003600", true), ("e:0", false)] {
        let keytab = keytab(&format!("n:key u:jane {end}"));
        let expires_at = identity(&message(&keytab, "192.0.2.7"), &keytab).expires_at;
        assert_eq!(expires_at, ends.then_some(NOW.plus(3600)), "{end}");
    }
}

#[test]
fn messages_of_other_forms_are_refused() {
    let keytab = keytab("n:key u:jane");
    let good = message(&keytab, "192.0.2.7");
    let changed = |place: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[place] = value;
        verify(&bytes, &keytab, "192.0.2.7").unwrap_err()
    };
    assert!(matches!(changed(0, b'g'), SssError::Foreign));
    assert!(matches!(changed(7, b'1'), SssError::Foreign));
    assert!(matches!(changed(6, 7), SssError::Foreign));
    assert!(matches!(changed(6, 255), SssError::Truncated | SssError::Foreign));
    assert!(matches!(verify(&good[..15], &keytab, "::1"), Err(SssError::Truncated)));
    assert!(matches!(verify(&vec![0; 17_000], &keytab, "::1"), Err(SssError::TooLong { .. })));
    let refused =
        |option, items: &[(u8, &[u8])]| verify(&with_items(&keytab, option, items), &keytab, "::1").unwrap_err();
    assert!(matches!(refused(2, &[]), SssError::Foreign));
    assert!(matches!(refused(0, &[]), SssError::Anonymous));
    assert!(matches!(refused(0, &[(0x07, b"filler")]), SssError::Anonymous));
    for value in [b"".as_slice(), b"\0", b"no nul", b"two\0nuls\0", b"line\n\0", b"\xff\0"] {
        assert!(matches!(refused(0, &[(0x01, value)]), SssError::Items), "{value:?}");
    }
}

#[test]
fn parameters_of_servers_are_read_and_written() {
    for text in ["0.+13:/etc/xrootd/sss.keytab", "0.60:/k"] {
        assert_eq!(SssParams::parse(text).unwrap().to_text(), text);
    }
    for text in ["", "0.", "1.13:/k", "0.13", "0.0:/k", "0.x:/k", "0.-1:/k"] {
        assert!(matches!(SssParams::parse(text), Err(SssError::Params)), "{text}");
    }
}

proptest! {
    #[test]
    fn no_message_makes_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        kind in any::<u8>(),
        value in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let keytab = keytab("u:anybody g:anygroup");
        let _ = verify(&bytes, &keytab, "::1");
        let _ = verify(&[b"sss\0\0\0\x000\0\0\0\0\0\0\0\x07".as_slice(), &bytes].concat(), &keytab, "::1");
        let _ = verify(&with_items(&keytab, 0, &[(kind, &value)]), &keytab, "::1");
    }
}

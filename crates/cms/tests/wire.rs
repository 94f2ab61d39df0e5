//! Messages as stock programs of 5.5.3 have sent them, and properties of all others.

use bytes::BytesMut;
use forebay_cms::{Event, Frame, Held, Load, Login, LoginReply, NodeSession, Report, SessionError, Space};
use proptest::prelude::*;
use std::time::Duration;

/// The login of a stock server.
const LOGIN: &str = "00000000 00 00 0059 80 0003 a0 00800048 a0 0000285a a0 0003efe3 a0 0000977a a0 00000400 80 0001 80 0055 80 71cb \
    80 a8c7 0017 732d6e3140766d2032393133316c6f63616c686f737400 000a 7273202f73746f726500 0000 0008 6d79484e3d766d00";

/// A manager's answer to a login.
const REPLY: &str = "00000000 00 00 004a 80 0003 a0 00000100 a0 000000b2 a0 00000000 a0 00000000 a0 00000000 80 0000 80 0000 \
    80 0000 80 0000 001a 6d2d70726f626540766d2032393130316c6f63616c686f737400 0000 0000 0000";

const QUESTION: &str = "d16acdd0 14 20 0009 2f73746f72652f7800";
const ANSWER: &str = "d16acdd0 0f 21 0009 2f73746f72652f7800";
const LOAD: &str = "00000000 10 00 000d 0006 000000000000 a0 000099db";
const PREPARE: &str = "00000000 06 01 001a 0000 0003 613100 0002 2a00 0002 3000 0003 727100 0003 2f6100 0000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()).expect("a digit");
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, &next| byte << 4 | digit(next))).collect()
}

fn login() -> Login {
    Login {
        process: 0x285a,
        total_gib: 0x3_efe3,
        free_mib: 0x977a,
        free_min_mib: 1024,
        used_percent: 85,
        data_port: 29_131,
        instance: "n1".to_owned(),
        host: "vm".to_owned(),
        paths: vec!["/store".to_owned()],
        is_suspended: false,
    }
}

fn logged_in() -> NodeSession {
    let mut session =
        NodeSession::new(&login(), Report { space: Space { free_mib: 39_387, used_percent: 0 }, ..Report::default() });
    let _login = session.poll_output();
    session.handle(&bytes(REPLY));
    let reply = LoginReply { fast_window: Duration::from_millis(178) };
    assert_eq!(session.poll_event(), Ok(Some(Event::LoggedIn(reply))));
    session
}

#[test]
fn the_login_has_the_fields_of_a_stock_server() {
    let mut out = BytesMut::new();
    assert!(login().to_frame().encode(&mut out));
    let stock = bytes(LOGIN);
    // From the version up to the data port; without a time zone in the mode.
    let mut fields = stock.get(8..46).unwrap().to_vec();
    fields[5] = 0;
    assert_eq!(out.get(8..46).unwrap(), fields);
    let paths_and_host = stock.get(stock.len() - 24..).unwrap();
    assert!(out.ends_with(paths_and_host));
    assert!(out.windows(14).any(|window| window == b"s-n1@vm forebay".get(..14).unwrap()));
}

#[test]
fn an_identity_is_always_sent() {
    let nameless = Login { instance: String::new(), host: String::new(), ..login() };
    assert!(nameless.to_frame().data.windows(25).any(|window| window == b"s-cache@localhost forebay"));
}

#[test]
fn questions_are_answered_with_their_stream() {
    let mut session = logged_in();
    session.handle(&bytes(QUESTION));
    let path = "/store/x".to_owned();
    assert_eq!(
        session.poll_event(),
        Ok(Some(Event::State { stream: 0xd16a_cdd0, path: path.clone(), is_refresh: false }))
    );
    session.answer(0xd16a_cdd0, &path, Held::Online);
    assert_eq!(session.poll_output()[..], bytes(ANSWER));
    session.announce(&path, Held::Pending);
    assert_eq!(session.poll_output()[..], bytes("00000000 0f 22 0009 2f73746f72652f7800"));
    session.retract(&path);
    assert_eq!(session.poll_output()[..], bytes("00000000 0e 20 0009 2f73746f72652f7800"));
}

#[test]
fn questions_about_the_server_are_answered_at_once() {
    let mut session = logged_in();
    for (question, answer) in [
        ("00000000 11 00 0000", "00000000 12 00 0000"),
        ("00000000 1a 00 0000", LOAD),
        ("00000000 13 00 0000", "00000000 0c 00 000a a0 000099db a0 00000000"),
        // The manager does not want an answer; then a code that no server gets.
        ("d16acdd0 14 22 0009 2f73746f72652f7800", ""),
        ("00000000 63 00 0001 00", ""),
    ] {
        session.handle(&bytes(question));
        assert_eq!(session.poll_event(), Ok(None), "{question}");
        assert_eq!(session.poll_output()[..], bytes(answer), "{question}");
    }
}

#[test]
fn the_state_of_the_server_is_reported() {
    let mut session = logged_in();
    session.suspend();
    session.resume();
    session.reset();
    session.disconnect();
    let sent = "00000000 16 08 0000 00000000 16 05 0000 00000000 16 10 0000 00000000 0d 00 0000";
    assert_eq!(session.poll_output()[..], bytes(sent));
    let load = Load { cpu: 101, network: 20, disk_used: 85 };
    session.update(Report { load, space: Space { free_mib: 1, used_percent: 85 } });
    assert_eq!(session.poll_output()[..], bytes("00000000 10 00 000d 0006 641400000055 a0 00000001"));
}

#[test]
fn files_are_prepared() {
    let mut session = logged_in();
    session.handle(&bytes(PREPARE));
    assert_eq!(session.poll_event(), Ok(Some(Event::Prepare { path: "/a".to_owned() })));
}

#[test]
fn refusals_end_the_session() {
    let session = |hex: &str| {
        let mut session = NodeSession::new(&login(), Report::default());
        session.handle(&bytes(hex));
        session.poll_event().unwrap_err()
    };
    assert_eq!(session("00000000 01 00 0006 00000002 6e6f"), SessionError::Refused { code: 2, text: "no".to_owned() });
    assert_eq!(session("00000000 1b 00 0000"), SessionError::AuthenticationRequired);
    assert_eq!(session("00000000 0d 00 0000"), SessionError::Disconnected);
    assert_eq!(session("00000000 11 00 0000"), SessionError::NotLoggedIn { code: 0x11 });
    let servers = vec!["a:1".parse().unwrap(), "b:2".parse().unwrap()];
    assert_eq!(session("00000000 18 00 000a 0008 613a3120623a3200"), SessionError::Elsewhere { servers });
}

#[test]
fn malformed_questions_are_not_answered() {
    let mut session = logged_in();
    for question in
        ["00000001 14 20 0002 7800", "00000001 14 00 0002 00ff", "00000001 14 20 0003 2fff00", "00000001 06 00 0000"]
    {
        session.handle(&bytes(question));
        assert_eq!(session.poll_event(), Ok(None), "{question}");
    }
    assert!(session.poll_output().is_empty());
}

fn run(session: &mut NodeSession) -> (Vec<Event>, Option<SessionError>) {
    let mut events = Vec::new();
    loop {
        match session.poll_event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(error) => return (events, Some(error)),
        }
    }
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_cuts(
        frames in prop::collection::vec((0..30_u8, any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        cut in 1..20_usize,
    ) {
        let mut stream = BytesMut::from(&bytes(REPLY)[..]);
        for (code, modifier, data) in frames {
            let frame = Frame { stream: 1, code, modifier, data: data.into() };
            prop_assert!(frame.encode(&mut stream));
        }
        let mut whole = NodeSession::new(&login(), Report::default());
        whole.handle(&stream);
        let expected = run(&mut whole);
        let mut cuts = NodeSession::new(&login(), Report::default());
        let (mut events, mut end) = (Vec::new(), None);
        for piece in stream.chunks(cut) {
            cuts.handle(piece);
            let (more, error) = run(&mut cuts);
            events.extend(more);
            end = error;
            if end.is_some() {
                break;
            }
        }
        prop_assert_eq!((events, end), expected);
        prop_assert_eq!(cuts.poll_output(), whole.poll_output());
    }
}

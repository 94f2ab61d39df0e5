//! The bytes of a cluster manager, cut at random. The first byte is the length of the pieces.

#![no_main]

use forebay_cms::{Event, Frames, Held, Login, NodeSession, Report, SessionError};
use libfuzzer_sys::fuzz_target;

fn run(pieces: &mut dyn Iterator<Item = &[u8]>) -> (Vec<Event>, Option<SessionError>, Vec<u8>) {
    let login = Login {
        process: 1,
        total_gib: 1,
        free_mib: 1,
        free_min_mib: 1,
        used_percent: 1,
        data_port: 1094,
        instance: "n".to_owned(),
        host: "host".to_owned(),
        paths: vec!["/".to_owned()],
        is_suspended: false,
    };
    let mut session = NodeSession::new(&login, Report::default());
    let mut events = Vec::new();
    for piece in pieces {
        session.handle(piece);
        loop {
            match session.poll_event() {
                Ok(None) => break,
                Ok(Some(event)) => {
                    if let Event::State { stream, path, .. } = &event {
                        session.answer(*stream, path, Held::Pending);
                    }
                    events.push(event);
                }
                Err(error) => return (events, Some(error), session.poll_output().to_vec()),
            }
        }
    }
    (events, None, session.poll_output().to_vec())
}

fuzz_target!(|input: &[u8]| {
    let [cut, stream @ ..] = input else { return };
    let whole = run(&mut std::iter::once(stream));
    assert_eq!(run(&mut stream.chunks(usize::from(*cut).max(1))), whole);
    let mut frames = Frames::default();
    frames.handle(&whole.2);
    while let Some(frame) = frames.poll().expect("our own frames are short") {
        assert!(frame.data.len() <= forebay_cms::DATA_LEN_MAX);
    }
});

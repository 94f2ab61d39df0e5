//! The bytes of a dCap client on a control and on a data connection, cut at random. The first byte is the length of the pieces.

#![no_main]

use forebay_dcap_proto::{
    ControlAnswer, ControlRequest, DataError, DataRequest, DataSession, Errno, Greeting, LineError, Lines, Refusal,
};
use libfuzzer_sys::fuzz_target;

const SIZE: u64 = 1 << 40;

/// The requests of a control connection; an error is the last one.
fn control(pieces: &mut dyn Iterator<Item = &[u8]>) -> Vec<Result<ControlRequest, LineError>> {
    let (mut lines, mut requests) = (Lines::default(), Vec::new());
    for piece in pieces {
        lines.handle_bytes(piece);
        while let Ok(Some(line)) = lines.poll_line() {
            let refusal = Refusal::new(Refusal::PROTOCOL, Errno::Invalid, line.as_str());
            let answer = ControlAnswer { session: 1, id: 0 }.failed(&refusal);
            assert!(answer.is_ascii() && answer.lines().count() == 1 && answer.matches('"').count() == 2);
            requests.push(ControlRequest::parse(&line));
        }
    }
    requests
}

/// The requests of a data connection, and the error that ends it.
fn data(pieces: &mut dyn Iterator<Item = &[u8]>) -> (Vec<DataRequest>, Option<DataError>) {
    let (mut session, mut requests) = (DataSession::new(SIZE), Vec::new());
    for piece in pieces {
        session.handle_bytes(piece);
        loop {
            match session.poll_request() {
                Ok(None) => break,
                Ok(Some(request)) => requests.push(request),
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fuzz_target!(|input: &[u8]| {
    let [cut, stream @ ..] = input else { return };
    let len = usize::from(*cut).max(1);
    assert_eq!(control(&mut stream.chunks(len)), control(&mut std::iter::once(stream)));
    let whole = data(&mut std::iter::once(stream));
    assert_eq!(data(&mut stream.chunks(len)), whole);
    for request in &whole.0 {
        match request {
            DataRequest::Read(reading) => assert!(reading.range.end() <= SIZE),
            DataRequest::Vector(parts) => assert!(parts.iter().all(|part| part.end() <= SIZE && !part.is_empty())),
            DataRequest::Seek { .. } | DataRequest::Locate { .. } | DataRequest::Close => {}
        }
    }
    if let Ok(Some((greeting, len))) = Greeting::parse(stream) {
        assert_eq!(len, 8 + greeting.challenge.len());
    }
});

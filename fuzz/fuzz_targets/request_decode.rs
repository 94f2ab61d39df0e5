//! A request's header and payload: decoding never panics, and encoding gives back what was decoded.

#![no_main]

use forebay_proto::{Request, RequestHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((header, payload)) = input.split_first_chunk() else { return };
    let Ok(header) = RequestHeader::decode(header) else { return };
    let Ok(request) = Request::decode(&header, payload) else { return };
    assert_eq!(request.code(), header.code);
    visit(&request);

    let mut encoded = Vec::new();
    request.encode(header.stream_id, &mut encoded);
    let (again, payload) = encoded.split_first_chunk().expect("an encoded request has a header");
    let again = RequestHeader::decode(again).expect("an encoded header is decoded");
    // Decoding drops one NUL at the end of a text; of two, the second goes now, and with it perhaps all of the text.
    if payload.last() != Some(&0) && !payload.is_empty() {
        assert_eq!(Request::decode(&again, payload), Ok(request));
    }
});

/// Walks through what is decoded only when asked for.
fn visit(request: &Request<'_>) {
    match request {
        Request::Read(read) => assert!(read.prereads.iter().count() <= 1024),
        Request::ReadVector(read) => {
            let elements = read.elements;
            assert_eq!(elements.iter().count(), elements.len());
            assert_eq!(elements.iter().map(|element| u64::from(element.len)).sum::<u64>(), elements.data_len());
        }
        Request::Statx(statx) => assert!(statx.iter().all(|path| !path.is_empty())),
        Request::Prepare(prepare) => assert!(prepare.iter().all(|path| !path.is_empty())),
        Request::Query(query) => assert!(query.config_names().all(|name| !name.is_empty())),
        Request::Login(login) => assert!(login.username.as_bytes().len() <= 8),
        _ => {}
    }
}

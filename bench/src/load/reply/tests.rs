//! Replies of every kind, good and bad.

use super::*;
use crate::content::Content;
use forebay_net::clock;
use forebay_proto::page::{encode_pages, frames};
use forebay_proto::request::ReadElement;
use forebay_proto::response::{ReplyTo, element_header};
use forebay_proto::{ErrorCode, FileHandle, StreamId};
use forebay_types::ByteRange;

fn content() -> Content {
    Content::of_path("/bench/large")
}

fn bytes_of(offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    content().fill(offset, &mut bytes);
    bytes
}

/// A slot that waits for `len` bytes from `offset` on.
fn waiting(step: Step, offset: u64, len: u64) -> Slot {
    let mut slot = Slot::new(content(), clock::monotonic());
    slot.begin(step, offset, len);
    slot
}

/// Passes `wire` on in two parts cut at `at`, and returns the slots that were finished.
fn feed(slots: &mut [Slot], wire: &[u8], at: usize) -> Result<Vec<usize>, ReplyError> {
    let mut finished = Vec::new();
    let mut reader = ReplyReader::new();
    let (first, second) = wire.split_at(at);
    reader.handle_input(first, slots, &mut finished)?;
    reader.handle_input(second, slots, &mut finished)?;
    Ok(finished.into_iter().map(|(slot, _)| slot).collect())
}

fn frame(stream: u16, status: Status, body: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    ReplyTo::direct(stream.into()).header(status, u32::try_from(body.len()).unwrap(), &mut wire);
    wire.extend_from_slice(body);
    wire
}

fn page_answer(stream: u16, offset: u64, len: u64) -> Vec<u8> {
    let mut wire = Vec::new();
    let range = ByteRange::at(offset, len);
    for part in frames(range) {
        let kind = if part.end() == range.end() { FrameKind::Final } else { FrameKind::Partial };
        StatusFrame::page_read(stream.into(), kind, part).encode(&mut wire);
        encode_pages(part.start(), &bytes_of(part.start(), part.len()), &mut wire);
    }
    wire
}

fn vector_answer(elements: &[ReadElement]) -> Vec<u8> {
    let body = elements
        .iter()
        .flat_map(|element| [element_header(element).to_vec(), bytes_of(element.offset, element.len.into())].concat());
    frame(0, Status::OK, &body.collect::<Vec<_>>())
}

fn elements() -> Vec<ReadElement> {
    [(4_096, 20), (8_192, 0), (20_480, 33)]
        .map(|(offset, len)| ReadElement { handle: FileHandle([1, 2, 3, 4]), offset, len })
        .into()
}

fn waiting_for_vector() -> Slot {
    let mut slot = waiting(Step::ReadVector, 0, 53);
    slot.elements = elements();
    slot
}

#[test]
fn answers_out_of_order_and_in_parts_are_complete_wherever_they_are_cut() {
    let wire = [
        frame(1, Status::OKSOFAR, &bytes_of(100, 30)),
        frame(0, Status::OK, &bytes_of(7, 50)),
        frame(1, Status::OKSOFAR, &[]),
        frame(1, Status::OK, &bytes_of(130, 10)),
    ]
    .concat();
    for at in 0..=wire.len() {
        let mut slots = [waiting(Step::Read, 7, 50), waiting(Step::Read, 100, 40)];
        assert_eq!(feed(&mut slots, &wire, at).unwrap(), [0, 1]);
    }
}

#[test]
fn pages_and_vectors_are_complete_wherever_they_are_cut() {
    let pages = page_answer(0, 4_000, 5_000);
    let vector = vector_answer(&elements());
    for at in (0..=pages.len()).step_by(7).chain(0..200) {
        assert_eq!(feed(&mut [waiting(Step::PageRead, 4_000, 5_000)], &pages, at).unwrap(), [0]);
    }
    for at in 0..=vector.len() {
        assert_eq!(feed(&mut [waiting_for_vector()], &vector, at).unwrap(), [0]);
    }
}

#[test]
fn page_answers_of_several_frames_are_followed() {
    let (offset, len) = (4_095, 5 << 20);
    let wire = page_answer(0, offset, len);
    let mut slots = [waiting(Step::PageRead, offset, len)];
    assert_eq!(feed(&mut slots, &wire, 3 << 20).unwrap(), [0]);
    assert_eq!(slots[0].received_bytes, len);
}

#[test]
fn names_are_answered_by_texts() {
    let mut opened = 7_u32.to_be_bytes().to_vec();
    opened.extend_from_slice(&[0; 8]);
    opened.extend_from_slice(b"1 65536 16 1700000000\0");
    let wire = [frame(0, Status::OK, &opened), frame(1, Status::OK, &[])].concat();
    for at in 0..=wire.len() {
        let mut slots = [waiting(Step::Open, 0, 0), waiting(Step::Close, 0, 0)];
        assert_eq!(feed(&mut slots, &wire, at).unwrap(), [0, 1]);
    }
}

#[test]
fn any_wrong_byte_in_any_kind_of_answer_is_an_error() {
    let mut read = frame(0, Status::OK, &bytes_of(7, 50));
    let mut pages = page_answer(0, 4_000, 200);
    let mut vector = vector_answer(&elements());
    for at in 2..read.len() {
        read[at] ^= 0x20;
        assert!(!matches!(feed(&mut [waiting(Step::Read, 7, 50)], &read, 0).as_deref(), Ok([0])), "byte {at}");
        read[at] ^= 0x20;
    }
    for at in 2..pages.len() {
        pages[at] ^= 0x20;
        assert!(
            !matches!(feed(&mut [waiting(Step::PageRead, 4_000, 200)], &pages, 0).as_deref(), Ok([0])),
            "byte {at}"
        );
        pages[at] ^= 0x20;
    }
    for at in (2..vector.len()).filter(|at| !is_handle_of_element(*at)) {
        vector[at] ^= 0x20;
        assert!(!matches!(feed(&mut [waiting_for_vector()], &vector, 0).as_deref(), Ok([0])), "byte {at}");
        vector[at] ^= 0x20;
    }
}

/// Which handle an element carries is of no meaning to clients.
fn is_handle_of_element(at: usize) -> bool {
    [8, 44, 60].iter().any(|start| (*start..start + 4).contains(&at))
}

#[test]
fn answers_of_the_wrong_length_are_errors() {
    let short = feed(&mut [waiting(Step::Read, 0, 51)], &frame(0, Status::OK, &bytes_of(0, 50)), 0);
    assert!(matches!(short, Err(ReplyError::Short { received_bytes: 50, expected_bytes: 51, .. })));
    let long = feed(&mut [waiting(Step::Read, 0, 49)], &frame(0, Status::OK, &bytes_of(0, 50)), 0);
    assert!(matches!(long, Err(ReplyError::TooLong { step: "read" })));
    let vector = feed(&mut [waiting_for_vector()], &vector_answer(&elements()[..2]), 0);
    assert!(matches!(vector, Err(ReplyError::Short { .. })));
}

#[test]
fn refusals_and_surprises_are_errors() {
    let mut refusal = Vec::new();
    ReplyTo::direct(StreamId::ZERO).error(ErrorCode::NOT_FOUND, "no such file", &mut refusal);
    let refused = feed(&mut [waiting(Step::Open, 0, 0)], &refusal, 3);
    assert!(matches!(refused, Err(ReplyError::Refused { step: "open", code: ErrorCode::NOT_FOUND, .. })));
    let stranger = feed(&mut [waiting(Step::Read, 0, 1)], &frame(5, Status::OK, &[]), 0);
    assert!(matches!(stranger, Err(ReplyError::UnknownStream)));
    let unasked = feed(&mut [waiting(Step::Idle, 0, 0)], &frame(0, Status::OK, &[]), 0);
    assert!(matches!(unasked, Err(ReplyError::UnknownStream)));
    let redirect = feed(&mut [waiting(Step::Read, 0, 1)], &frame(0, Status::REDIRECT, &[0; 8]), 0);
    assert!(matches!(redirect, Err(ReplyError::UnexpectedStatus { .. })));
}

#[test]
fn an_open_may_be_put_off_and_nothing_else() {
    let mut wire = Vec::new();
    ReplyTo::direct(StreamId::ZERO).wait(5, "busy", &mut wire);
    let (mut finished, mut reader) = (Vec::new(), ReplyReader::new());
    reader.handle_input(&wire, &mut [waiting(Step::Open, 0, 0)], &mut finished).unwrap();
    assert!(matches!(finished[..], [(0, Reply::PutOff { seconds: 5 })]));
    let read = feed(&mut [waiting(Step::Read, 0, 1)], &wire, 0);
    assert!(matches!(read, Err(ReplyError::UnexpectedStatus { status: Status::WAIT, .. })));
}

#[test]
fn an_answer_may_be_promised_and_come_later() {
    let mut wire = Vec::new();
    ReplyTo::direct(StreamId::ZERO).wait_response(60, &mut wire);
    wire.extend(frame(1, Status::OK, &bytes_of(0, 20)));
    ReplyTo::deferred(StreamId::ZERO).ok_with(&bytes_of(7, 50), &mut wire);
    for at in 0..=wire.len() {
        let mut slots = [waiting(Step::Read, 7, 50), waiting(Step::Read, 0, 20)];
        assert_eq!(feed(&mut slots, &wire, at).unwrap(), [1, 0]);
    }
    let mut cut = Vec::new();
    ReplyTo::deferred(StreamId::ZERO).header(Status::OK, 50, &mut cut);
    cut[7] -= 1;
    assert!(matches!(feed(&mut [waiting(Step::Read, 0, 50)], &cut, 0), Err(ReplyError::WrongMessage { .. })));
    let mut message = Vec::new();
    ReplyTo::direct(StreamId::ZERO).header(Status::ATTN, 20, &mut message);
    message.extend([0; 20]);
    assert!(matches!(feed(&mut [waiting(Step::Read, 0, 1)], &message, 0), Err(ReplyError::UnknownStream)));
}

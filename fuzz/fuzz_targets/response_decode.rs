//! A response's body: no parser panics, and pages and listings survive a round trip.
//!
//! The first byte chooses the parser and the size of the pieces, where bodies may come in pieces.

#![no_main]

use forebay_proto::page::{data_len, decode_pages, encode_pages};
use forebay_proto::response::{
    Checksum, ConfigValues, DirlistDecoder, DirlistEncoder, DirlistForm, HandshakeReply, Location, LoginReply,
    OpenReply, ProtocolReply, VectorData, parse_stat,
};
use forebay_proto::{RESPONSE_HEADER_LEN, ReplyTo, Response, ResponseHeader, StreamId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, body)) = input.split_first() else { return };
    match choice % 8 {
        0 => frame(body),
        1 => listing(body, usize::from(choice / 8) + 1),
        2 => pages(body),
        3 => {
            let _ = OpenReply::parse(body);
        }
        4 => {
            let _ = parse_stat(body);
        }
        5 => {
            let _ = Location::parse_all(body);
            let _ = Checksum::parse(body);
            let _ = ConfigValues::parse(body).map(|values| values.iter().count());
        }
        6 => {
            let _ = HandshakeReply::parse(body);
            let _ = ProtocolReply::parse(body);
            let _ = LoginReply::parse(body).map(|reply| reply.security_protocols().count());
        }
        _ => {
            let data_len: usize = VectorData::new(body).filter_map(Result::ok).map(|(_, data)| data.len()).sum();
            assert!(data_len <= body.len());
        }
    }
});

fn frame(bytes: &[u8]) {
    let Some((header, body)) = bytes.split_first_chunk() else { return };
    if let Ok(header) = ResponseHeader::decode(header) {
        let _ = Response::decode(&header, body);
    }
}

fn listing(body: &[u8], piece_len: usize) {
    let mut entries = Vec::new();
    let mut decoder = DirlistDecoder::new();
    let is_good = body.chunks(piece_len).all(|piece| decoder.handle_frame(piece, &mut entries).is_ok())
        && decoder.finish(&mut entries).is_ok();
    if !is_good {
        return;
    }
    let form = match entries.first() {
        Some(entry) if entry.stat.is_some() => DirlistForm::Checksums,
        _ => DirlistForm::Names,
    };
    let mut out = Vec::new();
    let mut encoder = DirlistEncoder::new(ReplyTo::direct(StreamId::ZERO), form);
    entries.iter().for_each(|entry| encoder.push(entry, &mut out));
    encoder.finish(&mut out);

    let (mut decoder, mut again) = (DirlistDecoder::new(), Vec::new());
    let mut rest = out.as_slice();
    while let Some((header, behind)) = rest.split_first_chunk::<RESPONSE_HEADER_LEN>() {
        let header = ResponseHeader::decode(header).expect("an encoded header is decoded");
        let (body, next) = behind.split_at(header.body_len as usize);
        decoder.handle_frame(body, &mut again).expect("an encoded listing is decoded");
        rest = next;
    }
    decoder.finish(&mut again).expect("an encoded listing is decoded");
    assert_eq!(again, entries);
}

fn pages(bytes: &[u8]) {
    let Some((offset, body)) = bytes.split_first_chunk() else { return };
    // Offsets on the wire are below 2^63.
    let offset = u64::from_be_bytes(*offset) >> 1;
    let Ok(pages) = decode_pages(offset, body) else { return };
    let data: Vec<u8> = pages.flat_map(|page| page.data.to_vec()).collect();
    assert_eq!(data_len(offset, body.len() as u64), Some(data.len() as u64));
    let mut encoded = Vec::new();
    encode_pages(offset, &data, &mut encoded);
    assert_eq!(encoded.len(), body.len());
    assert!(decode_pages(offset, &encoded).is_ok_and(|mut pages| pages.all(|page| page.is_intact)));
}

//! Both sides of every limit of requests.

use forebay_proto::limits::{
    ARGUMENT_LEN_MAX, DRAIN_LEN_MAX, PREREADS_MAX, REQUEST_LEN_MAX, VECTOR_ELEMENT_LEN_MAX, VECTOR_ELEMENTS_MAX,
    VECTOR_LEN_MAX, payload_len_max,
};
use forebay_proto::request::{ReadElement, ReadElements, encode_read_vector};
use forebay_proto::{ErrorCode, FileHandle, Params, Request, RequestCode, RequestError, RequestHeader, StreamId};

fn decode(code: RequestCode, params: Params, payload: &[u8]) -> Result<Request<'_>, RequestError> {
    let payload_len = u32::try_from(payload.len()).unwrap();
    Request::decode(&RequestHeader { stream_id: StreamId::ZERO, code, params, payload_len }, payload)
}

fn code_of(result: Result<Request<'_>, RequestError>) -> Result<(), ErrorCode> {
    result.map(drop).map_err(|error| error.code)
}

fn vector(elements: &[ReadElement]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_read_vector(StreamId::ZERO, 0, elements, &mut out);
    out.split_off(24)
}

fn element(len: u32) -> ReadElement {
    ReadElement { handle: FileHandle([0; 4]), offset: 0, len }
}

#[test]
fn the_input_buffer_holds_the_longest_payload() {
    for &code in RequestCode::ALL {
        assert!(24 + payload_len_max(code) as usize <= REQUEST_LEN_MAX, "{code}");
        assert!(payload_len_max(code) < DRAIN_LEN_MAX, "{code}");
    }
    assert_eq!(24 + ARGUMENT_LEN_MAX as usize, REQUEST_LEN_MAX);
}

#[test]
fn vectors_have_one_to_1024_elements() {
    let max = VECTOR_ELEMENTS_MAX as usize;
    assert_eq!(code_of(decode(RequestCode::READV, Params::default(), &vector(&vec![element(1); max]))), Ok(()));
    let too_long = vector(&vec![element(1); max + 1]);
    assert_eq!(code_of(decode(RequestCode::READV, Params::default(), &too_long)), Err(ErrorCode::ARG_TOO_LONG));
    assert_eq!(code_of(decode(RequestCode::READV, Params::default(), &[])), Err(ErrorCode::ARG_INVALID));
    let ragged = &vector(&[element(1)])[..15];
    assert_eq!(code_of(decode(RequestCode::READV, Params::default(), ragged)), Err(ErrorCode::ARG_INVALID));
}

#[test]
fn elements_have_0_to_2097136_bytes() {
    assert_eq!(VECTOR_ELEMENT_LEN_MAX, 2_097_136);
    for (len, expected) in [
        (0, Ok(())),
        (VECTOR_ELEMENT_LEN_MAX, Ok(())),
        (VECTOR_ELEMENT_LEN_MAX + 1, Err(ErrorCode::NO_MEMORY)),
        (1 << 31, Err(ErrorCode::ARG_INVALID)),
    ] {
        assert_eq!(ReadElements::parse(&vector(&[element(len)])).map(drop).map_err(|error| error.code), expected);
    }
    let negative = ReadElement { offset: 1 << 63, ..element(1) };
    assert_eq!(ReadElements::parse(&vector(&[negative])).unwrap_err().code, ErrorCode::ARG_INVALID);
    assert!(ReadElements::parse(&vector(&[ReadElement { offset: (1 << 63) - 1, ..element(1) }])).is_ok());
}

#[test]
fn a_whole_vector_stays_below_2_gib() {
    let mut elements = vec![element(VECTOR_ELEMENT_LEN_MAX); VECTOR_ELEMENTS_MAX as usize];
    assert_eq!(ReadElements::parse(&vector(&elements)).unwrap_err().code, ErrorCode::ARG_INVALID);
    elements[7].len -= 1;
    let bytes = vector(&elements);
    let parsed = ReadElements::parse(&bytes).unwrap();
    assert_eq!(parsed.body_len(), VECTOR_LEN_MAX);
    assert_eq!((parsed.len(), parsed.data_len()), (1024, VECTOR_LEN_MAX - 1024 * 16));
}

#[test]
fn prereads_are_counted() {
    let payload = |count: u32| vec![0; 8 + 16 * count as usize];
    let read = |payload: &[u8]| code_of(decode(RequestCode::READ, Params::default(), payload));
    assert_eq!(read(&payload(PREREADS_MAX)), Ok(()));
    assert_eq!(read(&payload(PREREADS_MAX + 1)), Err(ErrorCode::ARG_TOO_LONG));
    assert_eq!(read(&[0; 9]), Err(ErrorCode::ARG_INVALID));
    assert_eq!(read(&[]), Ok(()));
    assert_eq!(read(&[0; 3]), Ok(()));
}

#[test]
fn offsets_and_lengths_of_reads_are_not_negative() {
    let range =
        |offset: u64, len: u32| Params::default().with::<4, 8>(offset.to_be_bytes()).with::<12, 4>(len.to_be_bytes());
    for (offset, len, expected) in [
        ((1 << 63) - 1, (1 << 31) - 1, Ok(())),
        (1 << 63, 1, Err(ErrorCode::ARG_INVALID)),
        (0, 1 << 31, Err(ErrorCode::ARG_INVALID)),
    ] {
        for code in [RequestCode::READ, RequestCode::PGREAD] {
            assert_eq!(code_of(decode(code, range(offset, len), &[])), expected, "{code}");
        }
    }
    assert_eq!(code_of(decode(RequestCode::READ, range(0, 0), &[])), Ok(()));
    assert_eq!(code_of(decode(RequestCode::PGREAD, range(0, 0), &[])), Err(ErrorCode::ARG_INVALID));
    assert_eq!(code_of(decode(RequestCode::PGREAD, range(0, 1), &[])), Ok(()));
}

#[test]
fn missing_arguments_are_reported() {
    for code in [
        RequestCode::OPEN,
        RequestCode::STATX,
        RequestCode::DIRLIST,
        RequestCode::LOCATE,
        RequestCode::MKDIR,
        RequestCode::RM,
        RequestCode::RMDIR,
        RequestCode::CHMOD,
    ] {
        assert_eq!(code_of(decode(code, Params::default(), b"")), Err(ErrorCode::ARG_MISSING), "{code}");
        assert_eq!(code_of(decode(code, Params::default(), b"/")), Ok(()), "{code}");
    }
    let vfs = Params::default().with::<0, 1>([1]);
    assert_eq!(code_of(decode(RequestCode::STAT, vfs, b"")), Err(ErrorCode::ARG_MISSING));
    assert_eq!(code_of(decode(RequestCode::STAT, vfs, b"/")), Ok(()));
}

#[test]
fn renamings_need_two_names() {
    let mv = |len: u16, payload: &[u8]| {
        code_of(decode(RequestCode::MV, Params::default().with::<14, 2>(len.to_be_bytes()), payload))
    };
    assert_eq!(mv(5, b"/a b /c"), Err(ErrorCode::ARG_INVALID));
    assert_eq!(mv(4, b"/a b /c"), Ok(()));
    assert_eq!(mv(0, b"/a"), Err(ErrorCode::ARG_INVALID));
    assert_eq!(mv(9, b"/a b /c"), Err(ErrorCode::ARG_INVALID));
    assert_eq!(mv(0, b" /c"), Err(ErrorCode::ARG_INVALID));
}

#[test]
fn unknown_requests_are_invalid() {
    for code in [RequestCode::GPFILE, RequestCode(2999), RequestCode(3033), RequestCode(0), RequestCode(u16::MAX)] {
        assert_eq!(code_of(decode(code, Params::default(), b"")), Err(ErrorCode::INVALID_REQUEST));
    }
}

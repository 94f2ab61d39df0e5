//! Requests, bytes and checksums of fills.

use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers needs nothing")
}

#[test]
fn wanted_bytes_are_asked_for_before_the_beginning_of_their_block() {
    let fill = Fill::new(ByteRange::at(65536, 65536), ByteRange::at(70_000, 10));
    assert_eq!(fill.requests(), [ByteRange::between(69_632, 131_072), ByteRange::between(65_536, 69_632)]);
    let fill = Fill::new(ByteRange::at(65536, 65536), ByteRange::at(65_540, 10));
    assert_eq!(fill.requests(), [ByteRange::at(65536, 65536)]);
}

#[test]
fn bytes_no_reader_has_requested_are_deferred() {
    let blocks = ByteRange::at(65_536, 65_536);
    let wanted = ByteRange::at(70_000, 10);
    let first = ByteRange::between(69_632, 131_072);
    let head = ByteRange::between(65_536, 69_632);
    assert_eq!(Fill::new(blocks, wanted).stages(), (vec![(0, first), (1, head)], vec![]));
    let page = ByteRange::at(69_632, 4096);
    let rest = ByteRange::between(73_728, 131_072);
    assert_eq!(Fill::deferring_surplus(blocks, wanted).stages(), (vec![(0, page)], vec![(0, rest), (1, head)]));
    assert_eq!(Fill::deferring_surplus(blocks, blocks).stages(), (vec![(0, blocks)], vec![]));
}

#[test]
fn a_reader_requests_deferred_bytes_and_plans_again_when_they_are_given_up() {
    let fill = Fill::deferring_surplus(ByteRange::at(0, 65_536), ByteRange::at(0, 10));
    fill.add(0, Bytes::from(vec![1; 4096]).into()).unwrap();
    runtime().block_on(async {
        assert!(matches!(fill.take(ByteRange::at(0, 4096)).await, Ok(Supply::Memory(_))));
        fill.cut();
        fill.end(Ok(()));
        assert!(matches!(fill.take(ByteRange::at(4096, 1)).await, Ok(Supply::OnDisk)));
        fill.rest_wanted().await;
        assert!(matches!(fill.take(ByteRange::at(0, 1)).await, Ok(Supply::Memory(_))), "bytes that have arrived stay");
    });
}

#[test]
fn waiting_for_the_end_of_a_fill_requests_nothing() {
    let fill = Fill::deferring_surplus(ByteRange::at(0, 65_536), ByteRange::at(0, 10));
    let mut ended = std::pin::pin!(fill.ended());
    let mut wanted = std::pin::pin!(fill.rest_wanted());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(ended.as_mut().poll(&mut context).is_pending());
    assert!(wanted.as_mut().poll(&mut context).is_pending());
    fill.want_all();
    assert!(wanted.as_mut().poll(&mut context).is_ready());
}

#[test]
fn bytes_are_handed_out_as_they_arrive_and_from_disk_once_written() {
    let fill = Fill::new(ByteRange::at(0, 8192), ByteRange::at(0, 10));
    fill.add(0, Bytes::from(vec![1; 4096]).into()).unwrap();
    assert!(fill.take_now(ByteRange::at(4096, 1)).is_none());
    fill.add(0, Bytes::from(vec![2; 10]).into()).unwrap();
    let Some(Ok(Supply::Memory(bytes))) = fill.take_now(ByteRange::between(4000, 5000)) else { panic!("in memory") };
    assert_eq!(bytes.len(), 96);
    fill.release_memory(|chunk| chunk.end() <= 4096);
    assert!(matches!(fill.take_now(ByteRange::at(0, 1)), Some(Ok(Supply::OnDisk))));
}

#[test]
fn waiters_learn_of_a_failure_but_keep_what_has_arrived() {
    let fill = Fill::new(ByteRange::at(0, 8192), ByteRange::at(0, 10));
    fill.add(0, Bytes::from(vec![1; 10]).into()).unwrap();
    fill.end(Err(Error::ShuttingDown));
    runtime().block_on(async {
        assert!(matches!(fill.take(ByteRange::at(0, 1)).await, Ok(Supply::Memory(_))));
        assert!(matches!(fill.take(ByteRange::at(10, 1)).await, Err(Error::ShuttingDown)));
    });
}

/// The bytes of `range` of a test file, with the sums of their pages.
fn paged(range: ByteRange) -> Arrival {
    let byte_at = |at: u64| u8::try_from(at * at % 251).unwrap();
    let bytes: Bytes = (range.start()..range.end()).map(byte_at).collect();
    let bare = Arrival { bytes, page_sums: vec![0; 100] };
    let sum = |page: ByteRange| crc32c::crc32c(&(page.start()..page.end()).map(byte_at).collect::<Vec<_>>());
    let page_sums = bare.pages(range.start()).map(|(page, _)| sum(page)).collect();
    Arrival { bytes: bare.bytes, page_sums }
}

fn sum_of(range: ByteRange) -> Option<u32> {
    Some(crc32c::crc32c(&paged(range).bytes))
}

#[test]
fn sums_of_blocks_are_made_of_those_of_their_pages() {
    let fill = Fill::new(ByteRange::at(0, 50_000), ByteRange::at(9000, 10));
    fill.add(0, paged(ByteRange::between(8192, 30_000))).unwrap();
    fill.add(0, paged(ByteRange::between(30_000, 50_000))).unwrap();
    fill.add(1, paged(ByteRange::between(0, 8192))).unwrap();
    let blocks = [ByteRange::at(0, 16_384), ByteRange::at(16_384, 16_384), ByteRange::between(32_768, 50_000)];
    assert_eq!(fill.sums(&blocks), blocks.map(sum_of));
    assert_eq!(fill.sums(&blocks[1..]), [sum_of(blocks[1]), sum_of(blocks[2])]);
}

#[test]
fn pages_without_checksums_or_across_blocks_make_no_sum() {
    let fill = Fill::new(ByteRange::at(0, 30_000), ByteRange::at(0, 10));
    fill.add(0, paged(ByteRange::at(0, 12_288))).unwrap();
    fill.add(0, paged(ByteRange::at(12_288, 4096)).bytes.into()).unwrap();
    fill.add(0, paged(ByteRange::between(16_384, 30_000))).unwrap();
    let blocks = [ByteRange::at(0, 8192), ByteRange::at(8192, 8192), ByteRange::between(16_384, 30_000)];
    assert_eq!(fill.sums(&blocks), [sum_of(blocks[0]), None, sum_of(blocks[2])]);
    let odd = [ByteRange::at(0, 10_000), ByteRange::at(10_000, 6384), ByteRange::between(16_384, 30_000)];
    assert_eq!(fill.sums(&odd), [None, None, sum_of(odd[2])]);
}

#[test]
fn an_origin_that_sends_too_much_is_caught() {
    let fill = Fill::new(ByteRange::at(0, 10), ByteRange::at(0, 10));
    assert!(fill.add(0, Bytes::from_static(&[0; 11]).into()).is_err());
}

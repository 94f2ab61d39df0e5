//! Parses the structure of ROOT files that are opened and not whole in the cache.

use crate::{catalog::column_sets::Expected, transfer::access_tracker::AccessTracker};
use crate::{
    entries::{cached_file::CachedFile, claims::covering},
    link::admission::Purpose,
    transfer::planner::{ReadStep, fetch, plan},
};
use forebay_cache::AheadSource;
use forebay_structure::{Adviser, Layout, Outcome, Parser, Tree};
use forebay_telemetry::StructureOutcome;
use forebay_types::ByteRange;
use std::{os::unix::fs::FileExt, sync::Arc, time::Duration};

/// Longest first read of a reader that reads by the structure. Copies begin with more.
const FIRST_READ_LEN_MAX: u64 = 128 << 10;

/// Longest range of one that comes later: `TTreeCache` asks for no more.
const RANGE_LEN_MAX: u64 = 2 << 20;

/// Bytes at the beginning that each reader requests.
pub(crate) const HEAD: ByteRange = ByteRange::at(0, 512);

/// Bytes at the end in which the records of small trees lie: for files of which nothing is known.
const TAIL_LEN: u64 = 64 << 10;

/// Bytes at the end that are fetched at most because the records of other files lay there.
const TAIL_LEN_MAX: u64 = 1 << 20;

/// Time in which the bytes of one file are parsed, without the waits for them.
const TIME_MAX: Duration = Duration::from_millis(250);

/// How often bytes are planned until they are on the disk.
const ATTEMPTS: usize = 3;

/// Whether a file is worth parsing: it is a ROOT file by its name, and not whole in the cache.
pub(crate) fn is_candidate(file: &CachedFile) -> bool {
    file.read_ahead.settings().uses_structure()
        && file.lfn().as_str().ends_with(".root")
        && file.stored.as_ref().is_some_and(|stored| !stored.map.is_complete())
}

/// Whether a first read is one of a reader that looks at the structure. Copies begin with long reads. A reader may have begun with
/// another handle: HTTP clients read over several connections, each of which opens the file, and opens it again after some seconds.
pub(crate) fn is_of_structure(first: &[ByteRange]) -> bool {
    match first {
        [first] if first.start() == 0 => first.len() <= FIRST_READ_LEN_MAX,
        ranges => !ranges.is_empty() && ranges.iter().all(|it| it.start() > 0 && it.len() <= RANGE_LEN_MAX),
    }
}

/// Has the head and the tail of a file fetched that was opened just now: its reader comes to both. `known` are the lengths that
/// were requested of another file of its dataset.
pub(crate) fn fetch_ends(file: &Arc<CachedFile>, known: Option<(u32, u32)>) {
    let (head_len, tail_len) = known.map_or((0, 0), |(head, tail)| (u64::from(head), u64::from(tail)));
    let head = ByteRange::at(0, head_len.clamp(HEAD.len(), FIRST_READ_LEN_MAX));
    // A quarter more: records of the next file may be longer.
    let tail_len = if tail_len > 0 { (tail_len + tail_len / 4).min(TAIL_LEN_MAX) } else { TAIL_LEN };
    let tail = tail_of(file, tail_len);
    file.structure.note_fetched_tail(tail.len());
    for range in [head.clipped_to(file.size()), tail] {
        fetch(file, range, Purpose::ReadAhead, AheadSource::Structure, usize::MAX);
    }
}

/// Begins to parse a file, unless that was begun before. What the reader of `tracker` is expected to read is fetched then.
pub(crate) fn start(file: &Arc<CachedFile>, tracker: &Arc<AccessTracker>) {
    if file.structure.begin() {
        tokio::spawn(run(Arc::clone(file), Arc::clone(tracker)));
    } else if file.structure.is_parsing() {
        tokio::spawn(begin_when_parsed(Arc::clone(file), Arc::clone(tracker)));
    }
}

/// Another handle has begun to parse, and may be closed before that ends: this one may be the one that reads the data, and have read
/// all metadata by then.
async fn begin_when_parsed(file: Arc<CachedFile>, tracker: Arc<AccessTracker>) {
    tokio::select! {
        biased;
        () = tracker.closed() => (),
        () = file.structure.answered() => tracker.begin_by_history(&file),
    }
}

fn tail_of(file: &CachedFile, len: u64) -> ByteRange {
    ByteRange::between(file.size().saturating_sub(len), file.size())
}

async fn run(file: Arc<CachedFile>, tracker: Arc<AccessTracker>) {
    let Some(_place) = file.context.structures.place() else { return file.structure.postpone() };
    let outcome = parse(&file, &tracker).await.unwrap_or(StructureOutcome::Unreadable);
    file.structure.end();
    file.context.metrics.add_structure(outcome);
}

/// Has fetched what the reader of `tracker` is expected to read of trees that were just parsed.
async fn begin(file: &Arc<CachedFile>, tracker: &Arc<AccessTracker>, trees: Vec<Tree>) {
    let Some(adviser) = Adviser::new(Layout { trees, ..Layout::default() }) else { return };
    let expected = expected_columns(file, tracker, &adviser).await;
    let Some(memory) = file.context.structures.memory(adviser.len_bytes()) else { return };
    let history_max = file.read_ahead.settings().structure_history_max;
    file.structure.add(adviser, memory, &expected, history_max);
    tracker.begin_by_history(file);
}

/// The columns of each tree that the reader is expected to read, with the number of the tree.
async fn expected_columns(file: &CachedFile, tracker: &AccessTracker, adviser: &Adviser) -> Vec<(usize, Expected)> {
    let Some((catalog, job)) = tracker.memory_of(file) else { return Vec::new() };
    let mut expected = Vec::new();
    for (number, tree) in adviser.trees().enumerate() {
        if let Some(columns) = catalog.expected_columns(job, tree).await {
            expected.push((number, columns));
        }
    }
    expected
}

/// Parses a file; `None` when it cannot be read, or takes too long.
async fn parse(file: &Arc<CachedFile>, tracker: &Arc<AccessTracker>) -> Option<StructureOutcome> {
    let structures = &file.context.structures;
    let mut parser = Parser::new(file.size());
    let mut spent = Duration::ZERO;
    let mut is_tail_known = false;
    while let Some(range) = parser.poll_wanted() {
        if spent > TIME_MAX || range.len() > structures.record_bytes_max() || file.is_retired() {
            return None;
        }
        let tail = tail_of(file, file.structure.fetched_tail());
        if !is_tail_known && HEAD.end() < range.end() && range.end() <= tail.start() {
            is_tail_known = true;
            // The keys lie elsewhere, the record that they lead to does not: it is parsed while they come.
            fetch(file, range, Purpose::ReadAhead, AheadSource::Structure, usize::MAX);
            let bytes = read(file, tail).await?;
            let step = move |parser: &mut Parser| parser.handle_tail(tail.start(), &bytes);
            parser = parse_step(file, parser, &mut spent, step).await?;
            note_tail(file, parser.early_start());
            begin(file, tracker, parser.take_trees()).await;
            continue;
        }
        note_tail(file, Some(range.start()));
        let bytes = read(file, range).await?;
        parser = parse_step(file, parser, &mut spent, move |parser| parser.handle_bytes(&bytes)).await?;
    }
    file.context.metrics.observe_structure_parse(spent);
    begin(file, tracker, parser.take_trees()).await;
    let has_parsed = parser.has_parsed();
    Some(if has_parsed { StructureOutcome::Parsed } else { outcome_of(parser.into_layout().outcome()) })
}

/// One step of the parser, on a worker.
async fn parse_step(
    file: &CachedFile,
    mut parser: Parser,
    spent: &mut Duration,
    step: impl FnOnce(&mut Parser) + Send + 'static,
) -> Option<Parser> {
    let _turn = file.context.structures.turn().await?;
    let parsed = file.context.options.workers.run(move || {
        let begun = forebay_net::clock::monotonic();
        step(&mut parser);
        (parser, forebay_net::clock::monotonic().saturating_duration_since(begun))
    });
    let (parser, took) = parsed.await.ok()?;
    *spent += took;
    Some(parser)
}

/// Notes that metadata begin at `start`, if that is near the end.
fn note_tail(file: &CachedFile, start: Option<u64>) {
    if let Some(len @ ..=TAIL_LEN_MAX) = start.map(|start| file.size() - start) {
        file.structure.note_tail(len);
    }
}

/// The bytes of `range`, by way of the disk: its reader wants them too.
async fn read(file: &Arc<CachedFile>, range: ByteRange) -> Option<Vec<u8>> {
    for _ in 0..ATTEMPTS {
        if let Some(data) = file.hit(range) {
            let (data, len) = (Arc::clone(data), usize::try_from(range.len()).ok()?);
            let read = file.context.options.workers.run(move || {
                let mut bytes = vec![0; len];
                data.read_exact_at(&mut bytes, range.start()).map(|()| bytes)
            });
            return read.await.ok()?.ok();
        }
        for step in plan(file, &[range]).into_iter().flatten() {
            match step {
                ReadStep::Disk(_) => {}
                ReadStep::Check(range) => {
                    let check = covering(&file.claims.checks.lock(), range.start()).cloned();
                    if let Some(check) = check {
                        check.ended().await;
                    }
                }
                ReadStep::Fill { fill, .. } => {
                    fill.want_all();
                    fill.result().await.ok()?;
                }
                // Memory is short, or nothing is kept: the structure is not worth a request of its own.
                ReadStep::Wait(_) | ReadStep::Bypass(_) => return None,
            }
        }
    }
    None
}

const fn outcome_of(outcome: Outcome) -> StructureOutcome {
    match outcome {
        Outcome::Parsed => StructureOutcome::Parsed,
        Outcome::UnknownVersion => StructureOutcome::UnknownVersion,
        Outcome::TooLarge => StructureOutcome::TooLarge,
        Outcome::Damaged => StructureOutcome::Damaged,
        Outcome::None => StructureOutcome::None,
    }
}

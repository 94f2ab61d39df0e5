//! One read on its way to a front: planned a window ahead, delivered in order.

use crate::{
    Error, Handle, Segment,
    api::handle::{Opened, Source},
    base::error::with_cause,
    entries::{cached_file::CachedFile, claims::covering, fill::Supply},
    link::memory_budget::Reservation,
    transfer::{
        planner::{BYPASS_LEN_SHORT, Bypass, ReadStep, bypassed, plan, plan_with},
        vector_window::VectorWindow,
    },
};
use forebay_origin::{BoxFuture, OriginFile};
use forebay_telemetry::DropReason;
use forebay_types::{BlockIndex, ByteRange, Outcome};
use std::{collections::VecDeque, io, sync::Arc, time::Duration};

/// A read under way. Dropping it loses nothing: fills it has started continue for the cache and for other readers.
pub struct Read {
    handle: Arc<Opened>,
    rest: ByteRange,
    /// Up to where pieces are planned.
    planned: u64,
    pieces: VecDeque<ReadStep>,
    /// The reads of its request, which are planned together, and its position among them.
    vector: Option<(Arc<VectorWindow>, usize)>,
    has_begun: bool,
    /// Bytes not delivered yet that were fetched ahead for this read: they do not count as hits.
    fetched_ahead: u64,
    /// Whether its bytes were accounted before.
    is_again: bool,
}

/// Bypassed pieces of one read that are under way at the same time: enough to keep a long link busy.
const BYPASS_AHEAD: usize = 8;

/// Bytes for which a read waits at a time while memory is short: all that wait get their turn soon.
const WAIT_LEN_MAX: u64 = 1 << 20;

/// How long a read waits for memory that others hold: their clients have been given up as stalled by then.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(90);

impl Read {
    /// Starts reads of several ranges of one file together.
    pub(crate) fn start(handle: &Arc<Opened>, ranges: &[ByteRange]) -> Vec<Self> {
        let mut vector = None;
        let mut fetched_ahead = Vec::new();
        // Planned before the read is noted: what is missing is requested first, prefetches come after it.
        if let Source::Cached(file) = &handle.source {
            vector = Some(VectorWindow::start(file, ranges));
            fetched_ahead = handle.note_reads(file, ranges);
        }
        let new = |(position, range): (usize, &ByteRange)| {
            let vector = vector.as_ref().map(|vector| (Arc::clone(vector), position));
            let fetched_ahead = fetched_ahead.get(position).copied().unwrap_or(0);
            Self { vector, fetched_ahead, is_again: false, ..Self::start_again(handle, *range) }
        };
        ranges.iter().enumerate().map(new).collect()
    }

    /// Starts a read of bytes that were given, and accounted, before.
    pub(crate) fn start_again(handle: &Arc<Opened>, range: ByteRange) -> Self {
        Self {
            handle: Arc::clone(handle),
            rest: range,
            planned: range.start(),
            pieces: VecDeque::new(),
            vector: None,
            has_begun: false,
            fetched_ahead: 0,
            is_again: true,
        }
    }

    pub fn handle(&self) -> Handle {
        Handle { opened: Arc::clone(&self.handle) }
    }

    /// The next bytes, in order, never empty; `None` when all of the range has been delivered.
    ///
    /// After an error nothing more comes. A caller that gives up waiting loses nothing: the next call continues where this one was.
    pub async fn next(&mut self) -> Option<Result<Segment, Error>> {
        // Also after an error: the rest was cleared then.
        if self.rest.is_empty() {
            return None;
        }
        let next = match &self.handle.source {
            Source::Local { file, .. } => {
                Ok((Segment::File { file: Arc::clone(file), range: self.rest }, Outcome::Hit))
            }
            Source::Cached(file) => {
                let file = Arc::clone(file);
                self.next_cached(&file).await
            }
        };
        Some(match next {
            Ok((segment, outcome)) => {
                // A repeated read delivers bytes that were accounted when the disk failed to give them.
                if !self.is_again {
                    match outcome {
                        Outcome::Hit => self.handle.account_stored(self.fetched_ahead, segment.len()),
                        outcome => self.handle.account(outcome, segment.len()),
                    }
                }
                // Also those that are in flight, which a read waits for as for any other fill.
                if matches!(outcome, Outcome::Hit | Outcome::Coalesced) {
                    self.fetched_ahead = self.fetched_ahead.saturating_sub(segment.len());
                }
                // Advanced only after success: a caller that gives up waiting and calls again continues at the same byte.
                self.rest = ByteRange::between(self.rest.start() + segment.len(), self.rest.end());
                Ok(segment)
            }
            Err(error) => {
                // Ends the read: the bytes after a gap must not be delivered as if they followed.
                self.rest = ByteRange::at(self.rest.end(), 0);
                self.pieces.clear();
                Err(error)
            }
        })
    }

    fn next_cached<'a>(&'a mut self, file: &'a Arc<CachedFile>) -> BoxFuture<'a, Result<(Segment, Outcome), Error>> {
        Box::pin(self.take_next(file))
    }

    async fn take_next(&mut self, file: &Arc<CachedFile>) -> Result<(Segment, Outcome), Error> {
        self.begin();
        loop {
            self.plan_ahead(file);
            let position = self.rest.start();
            let piece =
                self.pieces.front_mut().ok_or(Error::Internal { what: "a read has no plan for its next byte" })?;
            match piece {
                ReadStep::Disk(range) => {
                    let range = ByteRange::between(position, range.end());
                    if let Some(segment) = self.next_on_disk(file, range)? {
                        return Ok((segment, Outcome::Hit));
                    }
                }
                ReadStep::Check(range) => {
                    // The rest only: bytes before the position were delivered.
                    let range = ByteRange::between(position, range.end());
                    self.next_checked(file, range).await;
                }
                ReadStep::Fill { fill, range, outcome } => {
                    let outcome = *outcome;
                    let range = ByteRange::between(position, range.end());
                    // The driver counts the demand of the reader that started the fill; a fill that is read ahead has none.
                    let _waits = (outcome == Outcome::Coalesced).then(|| file.read_ahead.link().turns.demand());
                    let mut supply = fill.take(range).await?;
                    if let Supply::Memory(bytes) = supply {
                        // Clients that do not take their bytes hold a part of the memory. The others get theirs from the disk then.
                        supply = match file.context.budget.deliver(&bytes) {
                            Some(bytes) => Supply::Memory(bytes),
                            None => fill.take_settled(range).await?,
                        };
                    }
                    match supply {
                        Supply::Memory(bytes) => {
                            // The chunk may end within the range; the step stays until its last byte is taken.
                            if position + bytes.len() as u64 == range.end() {
                                self.pieces.pop_front();
                            }
                            return Ok((Segment::Memory(bytes), outcome));
                        }
                        // The fill has written the bytes and dropped them from memory.
                        Supply::OnDisk => {
                            if let Some(segment) = self.next_on_disk(file, range)? {
                                return Ok((segment, outcome));
                            }
                        }
                    }
                }
                ReadStep::Wait(range) => {
                    let range = ByteRange::between(position, range.end());
                    self.plan_with_memory(file, range).await?;
                }
                ReadStep::Bypass(_) => {
                    if let Some(segment) = self.next_bypassed(file).await? {
                        return Ok((segment, Outcome::Bypassed));
                    }
                }
            }
        }
    }

    /// Takes what has been planned of it already.
    fn begin(&mut self) {
        // Once: later steps come from this read's own planning.
        if self.has_begun {
            return;
        }
        self.has_begun = true;
        if let Some(planned) = self.vector.as_ref().and_then(|(vector, position)| vector.begin(*position)) {
            (self.pieces, self.planned) = (planned.pieces, planned.end);
        }
    }

    /// Keeps a window planned ahead of what has been delivered, also of the reads after this one, except while the read waits for
    /// memory.
    fn plan_ahead(&mut self, file: &Arc<CachedFile>) {
        // The front is waiting for memory: planning more would reserve memory while it waits, and deadlock with
        // others that do the same.
        if matches!(self.pieces.front(), Some(ReadStep::Wait(_) | ReadStep::Bypass(Bypass { stream: None, .. }))) {
            return;
        }
        let window = file.context.options.read_window;
        let ahead = self.planned.saturating_sub(self.rest.start());
        // Refilled at half of the window, so that planning takes the lock of the claims rarely.
        if self.planned < self.rest.end() && ahead <= window / 2 {
            let part = ByteRange::between(self.planned, self.rest.end().min(self.rest.start().saturating_add(window)));
            self.pieces.extend(plan(file, &[part]).into_iter().flatten());
            self.planned = part.end();
        }
        if let Some((vector, _)) = &self.vector
            && self.planned == self.rest.end()
        {
            vector.plan_ahead(file, self.planned.saturating_sub(self.rest.start()));
        }
    }

    /// Waits until the first block of the piece in front, whose rest is `range`, has been checked, and plans the piece again:
    /// by then the block is as good as written by us, or missing.
    async fn next_checked(&mut self, file: &Arc<CachedFile>, range: ByteRange) {
        let check = covering(&file.claims.checks.lock(), range.start()).cloned();
        // The check may have ended since the planning; then it is not in the table and the piece is planned again at once.
        if let Some(check) = check {
            check.ended().await;
        }
        self.pieces.pop_front();
        // In reverse, each to the front: the order of the pieces is kept.
        for piece in plan(file, &[range]).into_iter().flatten().rev() {
            self.pieces.push_front(piece);
        }
    }

    /// Waits for memory for the first blocks of the piece in front, whose rest is `range`, and plans them again: by then another
    /// read may have had them fetched.
    async fn plan_with_memory(&mut self, file: &Arc<CachedFile>, range: ByteRange) -> Result<(), Error> {
        // A read that waits for memory holds none: others may wait for just that. The piece stays, for a caller that gives up.
        self.pieces.truncate(1);
        self.planned = range.end();
        let first = range.clipped_to(range.start().saturating_add(file.context.options.fill_len_max.min(WAIT_LEN_MAX)));
        let block_of = |offset| file.geometry.range_of(file.geometry.index_of(offset));
        let blocks = ByteRange::between(block_of(first.start()).start(), block_of(first.end() - 1).end());
        let memory = wait_for_memory(file, blocks.len()).await?;
        self.pieces = plan_with(file, &[first], Some(memory)).into_iter().flatten().collect();
        let rest = ByteRange::between(first.end(), range.end());
        self.pieces.extend((!rest.is_empty()).then_some(ReadStep::Wait(rest)));
        Ok(())
    }

    /// The next bytes of the piece in front, whose rest is `range` and was on disk when it was planned. `None` when its blocks
    /// were taken back since, because they could not be synced: it has become bypassed pieces.
    fn next_on_disk(&mut self, file: &CachedFile, range: ByteRange) -> Result<Option<Segment>, Error> {
        let present = file.present_part(range);
        // The step is used up when it was given to its end, and also when it has to be replaced.
        if present.end() == range.end() || present.is_empty() {
            self.pieces.pop_front();
        }
        if present.is_empty() {
            let mut pieces: VecDeque<ReadStep> = bypassed(range).collect();
            pieces.append(&mut self.pieces);
            self.pieces = pieces;
            return Ok(None);
        }
        file.segment(present).map(Some)
    }

    /// The next bytes of the bypassed piece in front; `None` when it is used up.
    async fn next_bypassed(&mut self, file: &Arc<CachedFile>) -> Result<Option<Segment>, Error> {
        let first = match self.pieces.front() {
            Some(ReadStep::Bypass(bypass)) => ByteRange::between(self.rest.start(), bypass.range.end()),
            _ => ByteRange::default(),
        };
        let origin = file.origin_file(first).await?;
        self.start_front(file, origin.as_ref()).await?;
        self.start_behind_front(file, origin.as_ref());
        let position = self.rest.start();
        let link = file.read_ahead.link();
        let (left, chunk) = loop {
            let Some(ReadStep::Bypass(Bypass { range, stream: Some((chunks, reservation)) })) = self.pieces.front_mut()
            else {
                return Err(Error::Internal { what: "a bypassed piece was not started" });
            };
            let left = ByteRange::between(position, range.end());
            tokio::select! {
                biased;
                chunk = chunks.next() => break (left, chunk),
                () = link.silence() => reservation.lend(),
            }
            // Requests behind it wait for the same origin: their memory goes back to the budget too.
            self.give_up_behind_front();
        };
        let Some(ReadStep::Bypass(bypass)) = self.pieces.front_mut() else { return Ok(None) };
        // The reservation is shared out chunk by chunk: memory is free again as the client takes the bytes.
        match chunk {
            // A server that sends too much is not trusted with the rest either.
            Some(Ok(chunk)) if chunk.bytes.len() as u64 > left.len() => {
                Err(Error::Internal { what: "an origin sent more than it was asked for" })
            }
            Some(Ok(chunk)) => {
                link.note_delivered(chunk.bytes.len() as u64);
                let bytes = bypass.stream.as_mut().and_then(|(_, reservation)| reservation.attach(chunk.bytes));
                // They come late and have no memory any more: requested again when there is some.
                if bytes.is_none() {
                    bypass.stream = None;
                }
                Ok(bytes.map(Segment::Memory))
            }
            Some(Err(error)) => Err(file.note_failure(Error::Origin(error))),
            None if !left.is_empty() => Err(Error::Internal { what: "an origin ended a read before its last byte" }),
            None => {
                self.pieces.pop_front();
                Ok(None)
            }
        }
    }

    /// Starts the bypassed piece in front, if it is not under way, as soon as there is memory for it.
    async fn start_front(&mut self, file: &CachedFile, origin: &dyn OriginFile) -> Result<(), Error> {
        let Some(ReadStep::Bypass(Bypass { range, stream: None })) = self.pieces.front() else { return Ok(()) };
        // The rest of it: it may have been started before.
        let mut range = ByteRange::between(self.rest.start(), range.end());
        // Without waiting if possible: the fast path takes no turn in the queue.
        let reservation = match file.context.budget.try_reserve_spare(file.read_ahead.link(), range.len()) {
            Some(reservation) => reservation,
            None => {
                // A read that waits for memory holds none: others may wait for just that.
                self.pieces.truncate(1);
                range = range.clipped_to(range.start().saturating_add(BYPASS_LEN_SHORT));
                self.planned = range.end();
                wait_for_memory(file, range.len()).await?
            }
        };
        file.account.note_server(&origin.identity().origin);
        if let Some(ReadStep::Bypass(bypass)) = self.pieces.front_mut() {
            *bypass = Bypass { range, stream: Some((origin.read(range), reservation)) };
        }
        Ok(())
    }

    /// Breaks off the bypassed pieces after the one in front. They are requested again when the read comes to them.
    fn give_up_behind_front(&mut self) {
        for piece in self.pieces.iter_mut().skip(1) {
            if let ReadStep::Bypass(bypass) = piece {
                bypass.stream = None;
            }
        }
    }

    /// Starts the bypassed pieces right after the one in front, if memory is free.
    fn start_behind_front(&mut self, file: &CachedFile, origin: &dyn OriginFile) {
        for piece in self.pieces.iter_mut().take(BYPASS_AHEAD) {
            // The first step that is not a bypass ends the run: its bytes come from elsewhere.
            let ReadStep::Bypass(bypass) = piece else { return };
            if bypass.stream.is_none() {
                // Never waits for memory: the piece in front has its own, so the read advances without these.
                let budget = &file.context.budget;
                let Some(reservation) = budget.try_reserve_spare(file.read_ahead.link(), bypass.range.len()) else {
                    return;
                };
                bypass.stream = Some((origin.read(bypass.range), reservation));
            }
        }
    }
}

/// Waits in line for memory, for a bounded time: a request of several ranges may hold some for its later ones.
async fn wait_for_memory(file: &CachedFile, bytes: u64) -> Result<Reservation, Error> {
    let reserving = file.context.budget.reserve(file.read_ahead.link(), bytes);
    let reserved = tokio::time::timeout(MEMORY_WAIT_MAX, reserving).await;
    reserved.ok().flatten().ok_or(Error::OutOfMemory { seconds: MEMORY_WAIT_MAX.as_secs() })
}

/// How long taking blocks back may take: a sync on the same disk may be in its way, of many files together, and may hang.
const FORGET_TIME_MAX: Duration = Duration::from_secs(60);

impl Handle {
    /// Reads `range` once more, because a file that [`Handle::hit`] or a read of this handle gave could not be read there:
    /// `error` says why. The blocks of the range are not used any more, and their bytes come from the origin. They were
    /// accounted when they were given the first time, and are not again.
    ///
    /// # Errors
    /// [`Error::Disk`] when there is no origin to ask.
    pub async fn recover(&self, range: ByteRange, error: &io::Error) -> Result<Read, Error> {
        let opened = &self.opened;
        match &opened.source {
            Source::Cached(file) => {
                drop_unreadable(file, range, error).await;
                Ok(Read::start_again(opened, range))
            }
            Source::Local { .. } => Err(unreadable(opened, error)),
        }
    }
}

fn unreadable(opened: &Opened, error: &io::Error) -> Error {
    Error::Disk { lfn: opened.lfn.clone(), doing: "reading", reason: with_cause(error) }
}

/// Takes the blocks of `range` back: they are missing from now on. Their disk learns of it.
async fn drop_unreadable(file: &Arc<CachedFile>, range: ByteRange, error: &io::Error) {
    let context = &file.context;
    // A file that is not kept has no blocks to take back.
    let (Some(stored), Some(volume)) = (file.stored.as_ref(), file.volume()) else { return };
    // Counted before the blocks are taken back: a disk that hangs there is to be judged by this failure.
    file.note_read_failure();
    if let Some(disk) = &context.disk {
        disk.note_read_failure(volume, error);
    }
    let path = file.path_on_disk();
    let offset = range.start();
    let len = range.len();
    let path = path.display();
    tracing::error!(%path, offset, len, %error, "blocks on disk cannot be read: they are fetched again");
    let blocks: Vec<BlockIndex> = stored.map.geometry().blocks_of(range).map(BlockIndex).collect();
    let forgetting = {
        let file = Arc::clone(file);
        // On a worker: taking blocks back waits for a sync under way.
        context.options.workers.run(move || file.stored.as_ref().map(|stored| stored.forget(blocks)))
    };
    // Read before the wait: a file that was retired before is discarded already, which would end the wait at once.
    let was_retired = file.is_retired();
    let is_forgotten = tokio::select! {
        biased;
        forgotten = tokio::time::timeout(FORGET_TIME_MAX, forgetting) => matches!(forgotten, Ok(Ok(_))),
        // Mostly because the disk is offline: then all blocks were taken back.
        _ = file.discarded(), if !was_retired => true,
    };
    // The blocks cannot be taken back in time: rather drop the whole file than serve them again.
    if !is_forgotten {
        file.retire(DropReason::DiskOffline);
    }
}

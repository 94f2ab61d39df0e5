//! Replay of the requests of a trace by blocks, as a server without read-ahead answers them.

use crate::{
    access::Accesses,
    outcome::{Outcome, Period, PeriodClock},
    replay::{Admission, Cell, Scenario},
    requests::{Action, Open, Request},
    simulated_cache::{Holder, SimulatedCache, is_oversized},
};
use forebay_cache::{
    BlockSet, BlockState, EntryId, Footprint, Geometry, KeyClass, Ledger, Piece, PlanLimits, plan_read,
};
use forebay_types::{BlockIndex, ByteRange};

/// A replay under way.
pub(crate) struct BlockReplay<'a> {
    accesses: &'a Accesses,
    classes: &'a [KeyClass],
    scenario: &'a Scenario,
    admission: &'a Admission,
    size: u64,
    cache: SimulatedCache,
    files: Files,
    opens: Vec<OpenSums>,
}

/// The files of the records.
struct Files {
    states: Vec<State>,
}

#[derive(Default)]
struct State {
    /// Its blocks and those of them that are in the cache; `None` if it is not cached.
    blocks: Option<(Geometry, BlockSet)>,
    /// Bytes of the blocks in the cache.
    present: u64,
    /// Clients that have it open.
    open: u32,
    last_use_ms: i64,
}

/// Sums of one open.
#[derive(Clone, Copy, Default)]
struct OpenSums {
    /// The file was in the cache already when it was opened.
    was_cached: bool,
    origin: u64,
}

/// Parts of a read by where they come from.
#[derive(Clone, Copy, Default)]
struct Parts {
    hit: u64,
    missed: u64,
    fetched: u64,
    bypassed: u64,
}

impl Holder for Files {
    /// Uses are reported at once: there are few in comparison with requests.
    fn report_uses(&mut self, _: &mut Ledger) {}

    fn is_open(&self, id: EntryId) -> bool {
        self.state(id).is_some_and(|state| state.open > 0)
    }

    fn forget(&mut self, id: EntryId) -> Option<i64> {
        let state = usize::try_from(id.0).ok().and_then(|number| self.states.get_mut(number))?;
        state.blocks = None;
        state.present = 0;
        Some(state.last_use_ms)
    }
}

impl Files {
    fn state(&self, id: EntryId) -> Option<&State> {
        self.states.get(usize::try_from(id.0).ok()?)
    }
}

impl<'a> BlockReplay<'a> {
    pub(crate) fn new(
        accesses: &'a Accesses,
        classes: &'a [KeyClass],
        scenario: &'a Scenario,
        admission: &'a Admission,
        cell: Cell,
    ) -> Self {
        Self {
            accesses,
            classes,
            scenario,
            admission,
            size: cell.size,
            cache: SimulatedCache::new(
                &scenario.purge,
                cell,
                accesses.files().len(),
                accesses.span_ms().unwrap_or_default(),
            ),
            files: Files { states: accesses.files().iter().map(|_| State::default()).collect() },
            opens: vec![OpenSums::default(); accesses.requests().opens().len()],
        }
    }

    pub(crate) fn run(mut self, mut clock: PeriodClock) -> Outcome {
        for (request, action) in self.accesses.requests().iter() {
            let number = clock.period_of(request.at_us.div_euclid(1000));
            self.cache.begin(number);
            let sums = self.request(request, action).unwrap_or_default();
            self.cache.add(number, &sums);
        }
        self.cache.finish()
    }

    /// Takes one request; what it adds to the sums.
    fn request(&mut self, request: &Request, action: Action<'_>) -> Option<Period> {
        let open = *self.accesses.requests().opens().get(request.open as usize)?;
        let is_admitted = self.admission.includes(request.open as usize);
        // The record of an entry has seconds.
        let at_ms = request.at_us.div_euclid(1_000_000).saturating_mul(1000);
        self.cache.expire_if_due(at_ms, &mut self.files);
        let sums = self.opens.get_mut(request.open as usize)?;
        let state = self.files.states.get_mut(open.file as usize)?;
        match action {
            Action::Open => {
                sums.was_cached = state.blocks.is_some();
                state.open += 1;
                None
            }
            Action::Close => {
                state.open = state.open.saturating_sub(1);
                let hits = u64::from(is_admitted && sums.origin == 0);
                if is_admitted {
                    state.last_use_ms = at_ms;
                    let id = EntryId(u64::from(open.file));
                    self.cache.ledger.used(id, at_ms, u64::from(sums.was_cached));
                }
                Some(Period { accesses: 1, hits, ..Period::default() })
            }
            Action::Read(ranges) if !is_admitted => {
                let read = ranges.iter().map(|range| range.len()).sum();
                Some(Period { read, origin: read, bypassed: read, ..Period::default() })
            }
            Action::Read(ranges) => {
                let Parts { hit, missed, fetched, bypassed } = self.read(open, ranges, at_ms)?;
                let origin = fetched + bypassed;
                self.opens.get_mut(request.open as usize)?.origin += origin;
                Some(Period { read: hit + missed + bypassed, saved: hit, origin, bypassed, ..Period::default() })
            }
        }
    }

    /// Reads ranges of a file in one request: blocks that are missing are fetched once.
    fn read(&mut self, open: Open, ranges: &[ByteRange], at_ms: i64) -> Option<Parts> {
        let file = self.accesses.files().get(open.file as usize)?;
        let state = self.files.states.get_mut(open.file as usize)?;
        let decision = || self.scenario.decision(self.accesses, open.file, open.user);
        let block_size = || decision().block_size.unwrap_or(self.scenario.block_size);
        let new = || Geometry::new(block_size().bytes(), file.size).ok();
        let geometry = state.blocks.as_ref().map(|(geometry, _)| *geometry).or_else(new);
        let Some(geometry) = geometry else {
            // A server does not cache files of more blocks than a record has.
            let read = ranges.iter().map(|range| range.clipped_to(file.size).len()).sum();
            return Some(Parts { bypassed: read, ..Parts::default() });
        };
        let (mut parts, missing) = state.plan(geometry, ranges);
        if missing.is_empty() {
            return Some(parts);
        }
        let has_its_share = is_oversized(file.size, self.size) && state.present >= self.size / 2;
        if self.cache.is_full() || has_its_share {
            parts.bypassed = std::mem::take(&mut parts.missed);
            return Some(parts);
        }
        let (was_cached, before) = (state.blocks.is_some(), state.present);
        parts.fetched = state.keep(geometry, &missing);
        let id = EntryId(u64::from(open.file));
        let mut growth = Footprint::of_entry(state.present);
        if was_cached {
            growth = Footprint { inodes: 0, ..growth - Footprint::of_entry(before) };
            self.cache.ledger.resized(id, &file.key, state.present);
        } else if let Some(class) = self.classes.get(open.file as usize) {
            self.cache.ledger.insert_classified(id, *class, 0, state.present, at_ms, 1);
        }
        self.cache.grow(growth, at_ms, &mut self.files);
        Some(parts)
    }
}

impl State {
    /// The parts of a request, and the blocks that it needs and that are not there.
    fn plan(&self, geometry: Geometry, ranges: &[ByteRange]) -> (Parts, Vec<ByteRange>) {
        let is_present = |index| self.blocks.as_ref().is_some_and(|(_, blocks)| blocks.contains(index));
        let state_of = |index| if is_present(index) { BlockState::Present } else { BlockState::Missing };
        let (mut parts, mut missing) = (Parts::default(), Vec::new());
        for range in ranges {
            for piece in plan_read(*range, geometry, PlanLimits::default(), state_of) {
                if let Piece::Fill { blocks, wanted } = piece {
                    parts.missed += wanted.len();
                    missing.push(blocks);
                } else {
                    parts.hit += piece.wanted().len();
                }
            }
        }
        (parts, missing)
    }

    /// Keeps blocks; how many bytes of them were not there.
    fn keep(&mut self, geometry: Geometry, blocks: &[ByteRange]) -> u64 {
        let (_, kept) = self.blocks.get_or_insert_with(|| (geometry, BlockSet::new(geometry.block_count())));
        let indices = blocks.iter().flat_map(|blocks| geometry.blocks_of(*blocks)).map(BlockIndex);
        let new = indices.filter(|index| kept.insert(*index)).map(|index| geometry.range_of(index).len()).sum();
        self.present += new;
        new
    }
}

#[cfg(test)]
mod tests {
    use crate::{Accesses, Admission, Cell, Import, Outcome, Period, Replays, Scenario, Unit};
    use forebay_cache::{Action, Budget, CachingDecision, Mark, Marks, PathPattern, Policy, PurgeRules, Rule, Rules};
    use forebay_types::{BlockSize, Share};

    const KIB: u64 = 1 << 10;

    fn imported(lines: &[String]) -> Accesses {
        let mut import = Import::with_requests();
        import.begin();
        lines.iter().for_each(|line| import.line(line.as_bytes()).unwrap());
        import.finish()
    }

    fn open(t: u64, f: u64, path: &str, size: u64) -> String {
        format!(r#"{{"e":"open","t":{}000000,"f":{f},"path":"{path}","size":{size},"user":"ann"}}"#, 1_700_000_000 + t)
    }

    fn read(t: u64, f: u64, ranges: &[(u64, u64)]) -> String {
        let (head, tail) = (format!(r#""t":{}000000,"f":{f}"#, 1_700_000_000 + t), r#""r":"hit","us":1"#);
        match ranges {
            [(offset, len)] => format!(r#"{{"e":"read",{head},"o":{offset},"n":{len},{tail}}}"#),
            _ => {
                let elements: Vec<_> = ranges.iter().map(|(offset, len)| format!("[{offset},{len}]")).collect();
                format!(r#"{{"e":"readv",{head},"v":[{}],{tail}}}"#, elements.join(","))
            }
        }
    }

    fn close(t: u64, f: u64) -> String {
        let at = 1_700_000_000 + t;
        format!(r#"{{"e":"close","t":{at}000000,"f":{f},"hit":0,"missed":1,"coalesced":0,"bypassed":0}}"#)
    }

    fn scenario() -> Scenario {
        let all = Mark::Share(Share::ALL);
        let bytes = Budget { total: None, marks: Marks { high: all, low: all } };
        let purge = PurgeRules { bytes, ..PurgeRules::default() };
        Scenario { purge, unit: Unit::Block, block_size: BlockSize::new(64 * KIB).unwrap(), ..Scenario::default() }
    }

    fn run(lines: &[String], scenario: &Scenario, size: u64) -> (Period, Outcome) {
        let accesses = imported(lines);
        let admission = Admission::by_rules(&accesses, scenario);
        let outcome = Replays::new(&accesses, scenario).replay(&admission, Cell { policy: Policy::Lru, size });
        let mut sums = Period::default();
        outcome.periods.iter().for_each(|period| sums += *period);
        (sums, outcome)
    }

    #[test]
    fn blocks_are_fetched_whole_and_once() {
        let lines = [
            open(0, 1, "/a", 200 * KIB),
            read(1, 1, &[(100, 1000)]),
            // Parts of one block that is missing, and of one that is there.
            read(2, 1, &[(64 * KIB, 10), (65 * KIB, 20), (0, 30)]),
            // Two blocks, the second one is short.
            read(3, 1, &[(191 * KIB, 100 * KIB)]),
            close(4, 1),
            open(5, 2, "/a", 200 * KIB),
            read(6, 2, &[(0, 128 * KIB)]),
            close(7, 2),
        ];
        let (sums, outcome) = run(&lines, &scenario(), 1 << 40);
        let (missed, hit) = (1000 + 30 + 9 * KIB, 30 + 128 * KIB);
        assert_eq!((sums.read, sums.saved, sums.origin), (missed + hit, hit, 200 * KIB));
        assert_eq!((sums.accesses, sums.hits), (2, 1));
        assert_eq!(outcome.used, 200 * KIB + 4096);
    }

    #[test]
    fn files_in_use_stay_and_what_finds_no_room_is_not_kept() {
        let block = 64 * KIB;
        let lines = [
            open(0, 1, "/a", block),
            read(1, 1, &[(0, block)]),
            open(2, 2, "/b", block),
            read(3, 2, &[(0, block)]),
            // Both are open: there is no room, and nothing more is kept.
            open(4, 3, "/c", 2 * block),
            read(5, 3, &[(0, block)]),
            read(6, 3, &[(0, block)]),
            close(7, 1),
            close(8, 2),
            close(9, 3),
        ];
        let (sums, outcome) = run(&lines, &scenario(), 2 * (block + 4096) - 1);
        assert_eq!((sums.saved, sums.bypassed, sums.origin), (0, 2 * block, 4 * block));
        assert_eq!((outcome.purged_files, outcome.used), (0, 2 * (block + 4096)));
        let (_, outcome) = run(&lines, &scenario(), 3 * (block + 4096));
        assert_eq!((outcome.purged_files, outcome.used), (0, 3 * (block + 4096)));
        // Closed files go, the one that was used last stays.
        let later = [open(10, 4, "/d", block), read(11, 4, &[(0, block)]), close(12, 4)];
        let (_, outcome) = run(&[&lines[..], &later].concat(), &scenario(), 3 * (block + 4096) + 1);
        assert_eq!((outcome.purged_files, outcome.purged_bytes), (1, block + 4096));
    }

    #[test]
    fn block_sizes_and_bypasses_are_those_of_the_rules() {
        let rule = |path: &str, caching| Rule { path: PathPattern::parse(path).ok(), caching, ..Rule::default() };
        let small = CachingDecision { block_size: BlockSize::new(4 * KIB).ok(), ..CachingDecision::default() };
        let bypass = CachingDecision { action: Action::Bypass, ..CachingDecision::default() };
        let decisions = Rules::new(vec![rule("/small/*", small), rule("/past/*", bypass)]);
        let scenario = Scenario { decisions, ..scenario() };
        let lines = [
            open(0, 1, "/small/a", 1 << 20),
            open(0, 2, "/past/b", 1 << 20),
            read(1, 1, &[(0, 1)]),
            read(1, 2, &[(0, 1)]),
            close(2, 1),
            close(2, 2),
        ];
        let (sums, _) = run(&lines, &scenario, 1 << 40);
        assert_eq!((sums.origin, sums.bypassed, sums.accesses), (4 * KIB + 1, 1, 2));
    }
}

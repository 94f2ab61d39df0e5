//! The set-up of a run, drawn from its seed before the first request.

use crate::{
    content::{Content, ROOT_FILE_SIZE, is_root},
    dice::Dice,
    index::SimIndex,
    world::{OriginFileState, World},
};
use forebay_cache::{
    Budget, FillPolicy, Policy, PurgeRules, ReadAheadSettings, StructureUse, ValidityCheck, ValidityPolicy,
};
use forebay_engine::{Options, PurgeOptions, ReadAheadOptions, Workers};
use forebay_types::BlockSize;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// A set-up and a story, small enough that every limit is met.
pub(crate) struct Scenario {
    pub(crate) clients: u64,
    pub(crate) phases: u64,
    /// How copies are kept valid.
    pub(crate) validity: ValidityPolicy,
    block_size: BlockSize,
    budget_bytes: u64,
    fill_len_max: u64,
    read_window: u64,
    sync_interval: Duration,
    open_files_max: usize,
    disk_pause: Duration,
    purge: PurgeRules,
    read_ahead: ReadAheadSettings,
}

/// Sizes that files have: around blocks of 4 KiB and 64 KiB, empty, and some more.
const SIZES: [u64; 10] = [0, 1, 4095, 4096, 4097, 16_384, 65_536, 65_537, 90_000, 150_001];

/// Files of the origin; one more path has no file.
const FILES: u64 = 5;

impl Scenario {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let block_size = BlockSize::new(4096 * *dice.pick(&[1, 2, 4, 16])).expect("a multiple of 4 KiB");
        let period = dice.millis(0..=20_000);
        let check = *dice.pick(&[ValidityCheck::Never, ValidityCheck::EachOpen, ValidityCheck::Every(period)]);
        let stale_max = dice.millis(0..=10_000);
        Self {
            clients: dice.within(1..=6),
            phases: dice.within(1..=3),
            validity: ValidityPolicy { check, stale_max: Some(stale_max), compares_checksum: false },
            block_size,
            budget_bytes: block_size.bytes() * 4 + dice.below(1 << 19),
            fill_len_max: dice.within(4096..=1 << 17),
            read_window: dice.within(8_192..=1 << 18),
            sync_interval: dice.millis(100..=8_000),
            open_files_max: usize::try_from(dice.within(3..=20)).unwrap_or(3),
            disk_pause: dice.millis(50..=15_000),
            purge: purge_rules(dice),
            read_ahead: read_ahead(dice),
        }
    }

    /// The engine's set-up; the delays of its disk are drawn as the world is at the time.
    pub(crate) fn options(&self, world: &World, index: &SimIndex, dice: &mut Dice) -> Options {
        let world = world.clone();
        let dice = Mutex::new(dice.split());
        let delay = move || {
            let longest_ms = world.state().disk_delay_ms;
            let micros = dice.lock().below(longest_ms * 1000 + 1);
            Duration::from_micros(micros)
        };
        Options {
            block_size: self.block_size,
            budget_bytes: self.budget_bytes,
            fill_len_max: self.fill_len_max,
            read_window: self.read_window,
            sync_interval: self.sync_interval,
            open_files_max: self.open_files_max,
            disk_pause: self.disk_pause,
            purge: PurgeOptions { rules: self.purge.clone(), ..PurgeOptions::default() },
            read_ahead: ReadAheadOptions { settings: self.read_ahead, ..ReadAheadOptions::default() },
            workers: Workers::Inline(Arc::new(delay)),
            index: Arc::new(index.clone()),
            ..Options::default()
        }
    }
}

/// Bounds that are met often, or never.
fn purge_rules(dice: &mut Dice) -> PurgeRules {
    let policy = *dice.pick(&[Policy::Lru, Policy::S3Fifo, Policy::Gdsf]);
    let total = dice.one_in(2).then(|| dice.within(20_000..=300_000));
    let age_max = dice.one_in(4).then(|| dice.millis(1_000..=20_000));
    PurgeRules { policy, bytes: Budget { total, ..Budget::default() }, age_max, ..PurgeRules::default() }
}

fn read_ahead(dice: &mut Dice) -> ReadAheadSettings {
    ReadAheadSettings {
        enabled: !dice.one_in(4),
        structure: *dice.pick(&StructureUse::ALL),
        fill: *dice.pick(&[FillPolicy::OnDemand, FillPolicy::WhileOpen, FillPolicy::ToEnd]),
        ..ReadAheadSettings::default()
    }
}

pub(crate) fn populate(world: &World, dice: &mut Dice) {
    let mut state = world.state();
    for file in 0..FILES {
        let content = Content { file, version: 0 };
        state.sizes.insert(content, some_size(file, dice));
        state.files.push(OriginFileState { content, is_there: true });
    }
    state.origin_latency_ms = *dice.pick(&[0, 2, 50, 300]);
    state.disk_delay_ms = *dice.pick(&[0, 1, 20]);
}

/// A size of a file; of a ROOT file mostly the one with which it has a structure.
fn some_size(file: u64, dice: &mut Dice) -> u64 {
    if is_root(file) && !dice.one_in(4) { ROOT_FILE_SIZE } else { *dice.pick(&SIZES) }
}

/// A file number that a client asks for: one that is there, at times one that never was.
pub(crate) fn some_file(dice: &mut Dice) -> u64 {
    dice.below(FILES + 1)
}

/// One thing that happens to the world: a fault begins or ends, or a file changes.
pub(crate) fn event(world: &World, dice: &mut Dice) {
    let mut state = world.state();
    state.note_event();
    let file = dice.below(FILES);
    match dice.below(12) {
        0 => state.origin_away = true,
        1 => state.origin_fails_one_in = dice.within(1..=10),
        2 => state.disk_full = true,
        3 => state.disk_fails_one_in = dice.within(2..=20),
        4 => state.disk_delay_ms = *dice.pick(&[500, 5_000]),
        5 => state.replace(file, some_size(file, dice)),
        6 => {
            // Changed with the same size: only the change time shows it.
            let size = state.current(file).map_or(0, |(_, size)| size);
            state.replace(file, size);
        }
        7 => {
            if let Some(state) = usize::try_from(file).ok().and_then(|index| state.files.get_mut(index)) {
                state.is_there = !state.is_there;
            }
        }
        8 => state.origin_latency_ms = *dice.pick(&[0, 1, 30, 500, 20_000]),
        _ => state.end_faults(),
    }
}

impl crate::world::State {
    pub(crate) fn end_faults(&mut self) {
        (self.origin_away, self.disk_full) = (false, false);
        (self.origin_fails_one_in, self.disk_fails_one_in) = (0, 0);
        (self.disk_delay_ms, self.origin_latency_ms) = (2, 5);
    }
}

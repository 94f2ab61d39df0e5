//! One life of the server: it starts on what the last one left, serves under faults, and is shut down or crashes.

use crate::{
    client::SimClient,
    dice::Dice,
    disk::SimFaults,
    index::SimIndex,
    operator::Operator,
    origin::SimOrigin,
    scenario::{Scenario, event, populate},
    store::{check, rot},
    verdict::{Failure, Summary},
    world::World,
};
use anyhow::Context;
use forebay_cache::{AllowList, ValidityCheck};
use forebay_engine::{Engine, Export, ExportSource, Options, OriginFactory, Routes, Writes};
use forebay_store::Disk;
use forebay_telemetry::{Metrics, StructureOutcome};
use forebay_types::{Lfn, Outcome};
use std::{cell::Cell, path::Path, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::timeout};

/// When the first phase begins, in seconds of the Unix epoch.
const START: i64 = 1_800_000_000;

/// Time within which an engine must have shut down.
const SHUTDOWN_MAX: Duration = Duration::from_secs(600);

thread_local! {
    /// Panics of this thread: tasks that panic are caught by the runtime, but none may.
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Counts panics of the thread they happen in, from now on. For the whole process; call it once.
fn count_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            default(info);
        }));
    });
}

/// Simulates one seed; the failure has the violations that were found.
///
/// # Errors
/// The invariant that did not hold.
pub fn run(seed: u64) -> Result<Summary, Failure> {
    count_panics();
    PANICS.set(0);
    let world = World::default();
    let mut dice = Dice::new(seed);
    if let Err(error) = live(&world, &mut dice) {
        world.find(format!("the simulation broke off: {error:#}"));
    }
    if PANICS.get() > 0 {
        world.find(format!("{} panics", PANICS.get()));
    }
    let state = world.state();
    if state.findings.is_empty() { Ok(state.summary) } else { Err(Failure { seed, findings: state.findings.clone() }) }
}

fn live(world: &World, dice: &mut Dice) -> anyhow::Result<()> {
    let directory = tempfile::Builder::new().prefix("forebay-sim-").tempdir_in(memory_or_disk())?;
    let root = directory.path().join("store");
    let scenario = Scenario::draw(dice);
    populate(world, dice);
    let index = SimIndex::new(world.clone(), dice.split());
    let mut now = START;
    for _ in 0..scenario.phases {
        let lasts = dice.millis(500..=25_000);
        now += i64::try_from(lasts.as_secs()).unwrap_or(0) + 3600;
        let mut dice = dice.split();
        let place = Place { root: &root, index: &index };
        phase(world, &scenario, place, now, lasts, &mut dice)?;
        check(world, &root)?;
        if !world.state().index_has_gaps && dice.one_in(2) {
            rot(world, &root, &mut dice)?;
        }
        let state = world.state();
        if !state.findings.is_empty() || (state.index_has_gaps && !state.rotten.is_empty()) {
            break;
        }
    }
    Ok(())
}

/// A file system in memory, if there is one: nothing here depends on a real disk.
fn memory_or_disk() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// State that outlives a phase.
#[derive(Clone, Copy)]
struct Place<'a> {
    root: &'a Path,
    index: &'a SimIndex,
}

fn phase(
    world: &World,
    scenario: &Scenario,
    place: Place<'_>,
    now: i64,
    lasts: Duration,
    dice: &mut Dice,
) -> anyhow::Result<()> {
    let faults = SimFaults::new(place.root, world.clone(), dice.split());
    let disk = Arc::new(faults.open_disk(place.root).context("opening the store")?);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().context("a runtime")?;
    let crashes = dice.one_in(2);
    let compared_before = world.state().summary.compared_bytes;
    runtime.block_on(async {
        forebay_net::clock::simulation::start_at(now);
        {
            let mut state = world.state();
            state.is_over = false;
            state.unchecked_until = None;
            state.checks_each_open = scenario.validity.check == ValidityCheck::EachOpen;
        }
        let engine = start_engine(world, scenario, scenario.options(world, place.index, dice), disk, dice.split())?;
        let mut clients = JoinSet::new();
        for number in 0..scenario.clients {
            let world = world.clone();
            let dice = dice.split();
            let engine = engine.clone();
            clients.spawn(SimClient { number, world, dice, engine }.run());
        }
        let admin_world = world.clone();
        let admin_dice = dice.split();
        let admin_engine = engine.clone();
        clients.spawn(Operator { world: admin_world, dice: admin_dice, engine: admin_engine }.run());
        let end = tokio::time::Instant::now() + lasts;
        while tokio::time::Instant::now() < end {
            tokio::time::sleep(dice.millis(1..=5_000)).await;
            event(world, dice);
        }
        if !crashes {
            shut_down(world, &engine, clients, compared_before).await;
        }
        anyhow::Ok(())
    })?;
    // Tasks end wherever they are.
    drop(runtime);
    if crashes {
        let mut state = world.state();
        state.summary.crashes += 1;
        state.index_has_gaps = true;
        drop(state);
        faults.unsynced().crash(dice).context("losing what was not synced")?;
        place.index.crash(dice);
    }
    faults.unsynced().forget();
    place.index.settle();
    Ok(())
}

fn start_engine(
    world: &World,
    scenario: &Scenario,
    options: Options,
    disk: Arc<dyn Disk>,
    dice: Dice,
) -> anyhow::Result<Engine> {
    let origin: Arc<dyn forebay_origin::Origin> = Arc::new(SimOrigin::new(world.clone(), dice));
    let source = ExportSource::Origin { origin: Arc::clone(&origin), server: SimOrigin::endpoint().into() };
    let export = Export {
        prefix: Lfn::parse("/")?,
        source,
        writes: Writes::Refuse,
        validity: scenario.validity,
        authorizes_at_origin: false,
        service: forebay_engine::Service::default(),
    };
    let factory: OriginFactory = Arc::new(move |_| Arc::clone(&origin));
    let routes = Routes::new(vec![export], AllowList::parse::<&str>(&[])?, factory)?;
    Ok(Engine::start(options, Some(disk), routes, Metrics::new()))
}

/// Ends a phase in order: clients finish, the engine is shut down, nothing is left over.
async fn shut_down(world: &World, engine: &Engine, mut clients: JoinSet<()>, compared_before: u64) {
    {
        let mut state = world.state();
        state.is_over = true;
        state.note_event();
        state.end_faults();
    }
    while let Some(ended) = clients.join_next().await {
        if let Err(error) = ended {
            world.find(format!("a client broke off: {error}"));
        }
    }
    if timeout(SHUTDOWN_MAX, engine.shutdown()).await.is_err() {
        world.find("the engine does not shut down".to_owned());
    }
    let exposition = engine.metrics().render().unwrap_or_default();
    for gauge in ["forebay_budget_used_bytes", "forebay_open_handles"] {
        match exposition.lines().find_map(|line| line.strip_prefix(gauge)).map(str::trim) {
            Some("0") => {}
            value => world.find(format!("{gauge} is {value:?} at the end")),
        }
    }
    world.state().summary.structures += engine.metrics().structure_files(StructureOutcome::Parsed);
    let index_errors = exposition.lines().find_map(|line| line.strip_prefix("forebay_index_errors_total "));
    if index_errors != Some("0") {
        world.state().index_has_gaps = true;
    }
    let counted: u64 = Outcome::ALL.into_iter().map(|outcome| engine.metrics().client_bytes(outcome)).sum();
    let delivered = world.state().summary.compared_bytes - compared_before;
    if counted != delivered {
        world.find(format!("clients got {delivered} bytes, {counted} are accounted"));
    }
}

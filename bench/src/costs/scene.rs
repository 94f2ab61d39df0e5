//! The set-up of a count: files, an origin, and a cache that holds all of them within an instrument.

use super::instrument::{Count as _, Instrument};
use super::row::{Files, Protocol, Row, UseByOthers};
use crate::file::make_file;
use crate::grid::{CA_FILE, HOST_CERTIFICATE, HOST_KEY, make_host};
use crate::load::{Bound, Entry, HttpLoad, Load, LoadFile, LoadOptions, Operation, Order, TlsClient, open_session};
use crate::process::{Program, Server, ready_address};
use crate::store::{files_of, make_store};
use anyhow::{Context as _, Result, bail, ensure};
use forebay_net::clock;
use rustix::thread::sched_getaffinity;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;

/// Length of the file that is read.
const LARGE_LEN: u64 = 16 << 20;

/// Files that are opened and closed in turn.
pub(crate) const SMALL_FILES: u16 = 8;
const SMALL_FILE_LEN: u64 = 16 << 10;

/// Files in the store from the start, which are opened and closed one after the other.
pub(crate) const MANY_FILES: u16 = 2000;

/// Reads that warm the cache.
const WARM_READ_LEN: u32 = 1 << 20;

/// Slices of which the cheapest one counts: fewest timers have fired in it.
const SLICES: usize = 5;

/// How long a server may be at work for one answer, or before it is quiet.
const QUIET_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two looks at a server at work.
const LOOK_INTERVAL: Duration = Duration::from_micros(50);

/// A server is quiet when it does no more than this, in instructions or system calls, within [`QUIET_TIME`]. After it was
/// warmed it makes checksums of files and writes its index, which takes millions.
const QUIET_COUNT: u64 = 300_000;
const QUIET_TIME: Duration = Duration::from_millis(300);

/// A server has begun by then to write the record of a file that was closed, and to drop its state.
const FORGET_TIME: Duration = Duration::from_secs(1);

/// Files and the origin. All of it goes with this value.
#[derive(Debug)]
pub(crate) struct Scene {
    forebay: PathBuf,
    large: LoadFile,
    small: Vec<LoadFile>,
    many: Vec<LoadFile>,
    tls: TlsClient,
    origin: Server,
    // Last, so that the servers are stopped before their files go.
    dir: TempDir,
}

impl Scene {
    /// Makes the files below `work_dir` and starts the program `forebay` to serve them.
    pub(crate) fn set_up(work_dir: &Path, forebay: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("forebay-costs-")
            .tempdir_in(work_dir)
            .with_context(|| format!("cannot make a directory in {}", work_dir.display()))?;
        let export = dir.path().join("origin");
        std::fs::create_dir(&export)?;
        let make = |name: &str, len| -> Result<LoadFile> {
            make_file(&export.join(name), len)?;
            Ok(LoadFile { path: format!("/{name}"), len })
        };
        let large = make("large", LARGE_LEN)?;
        let small = (0..SMALL_FILES).map(|index| make(&format!("small-{index}"), SMALL_FILE_LEN));
        let small = small.collect::<Result<_>>()?;
        make_host(dir.path())?;
        let tls = TlsClient::new(&dir.path().join(CA_FILE), false)?;
        let program =
            serve(forebay, &["--listen".as_ref(), "127.0.0.1:0".as_ref(), "--export-dir".as_ref(), export.as_os_str()]);
        let origin = start("origin", &program, &dir.path().join("origin.log"))?;
        let many = files_of(MANY_FILES.into());
        Ok(Self { forebay: forebay.to_owned(), large, small, many, tls, origin, dir })
    }

    /// Starts a cache within the instrument that `wrap` makes, and has it fetch everything.
    pub(crate) fn start_warm<I: Instrument>(
        &self,
        name: &'static str,
        wrap: impl FnOnce(Program, &Path) -> (I, Program),
        cancelled: &AtomicBool,
    ) -> Result<Watched<'_, I>> {
        let dir = tempfile::Builder::new().prefix(name).tempdir_in(&self.dir)?.keep();
        let store = dir.join("store");
        make_store(&store, MANY_FILES.into())?;
        let config = dir.join("forebay.toml");
        std::fs::write(&config, self.config(&store)?)?;
        let (instrument, program) = wrap(serve(&self.forebay, &["--config".as_ref(), config.as_os_str()]), &dir);
        let server = start(name, &on_one_processor(program)?, &dir.join("log"))?;
        let stored = store.join(self.large.path.trim_start_matches('/'));
        let mut watched = Watched { scene: self, server, instrument, stored };
        watched.warm(cancelled)?;
        Ok(watched)
    }

    /// The configuration of a cache with its files in `store`.
    fn config(&self, store: &Path) -> Result<String> {
        let quoted = |path: &Path| serde_json::to_string(path);
        let file = |name| quoted(&self.dir.path().join(name));
        Ok(format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[store]\npath = {}\n[purge]\nbudget = \"1TiB\"\n\
             [[export]]\norigins = [\"root://{}\"]\n[tls]\ncertificate = {}\nkey = {}\nca_dir = {}\n",
            quoted(store)?,
            self.origin.address(),
            file(HOST_CERTIFICATE)?,
            file(HOST_KEY)?,
            quoted(self.dir.path())?,
        ))
    }

    fn client(&self, row: &Row, server: SocketAddr) -> Result<Client> {
        match row.protocol {
            Protocol::Root { is_encrypted } => {
                let tls = is_encrypted.then(|| self.tls.clone());
                Ok(Client::Root(self.load(row, server, Entry { tls, proof: None })?))
            }
            Protocol::Http { is_encrypted } => {
                let tls = is_encrypted.then_some(&self.tls);
                Ok(Client::Http(HttpLoad::prepare(server, tls, &self.large, row.operation, row.order)?))
            }
        }
    }

    fn load(&self, row: &Row, server: SocketAddr, entry: Entry) -> Result<Load> {
        let files = match row.files {
            Files::Large => vec![self.large.clone()],
            Files::Small => self.small.clone(),
            Files::Many => self.many.clone(),
        };
        let (operation, order, pipeline) = (row.operation, row.order, row.pipeline);
        Load::prepare(&LoadOptions { server, files, operation, order, connections: 1, pipeline, entry: Some(entry) })
    }
}

/// The client of a row.
enum Client {
    Root(Load),
    Http(HttpLoad),
}

impl Client {
    /// Sends the requests of a batch at once, and awaits all answers; calls `settle` whenever bytes have come.
    fn run(&mut self, row: &Row, cancelled: &AtomicBool, settle: impl FnMut() -> Result<()>) -> Result<()> {
        match self {
            Self::Root(load) => load.run_in_step(Bound::Operations(row.pipeline.into()), cancelled, settle).map(drop),
            Self::Http(load) => load.request(settle),
        }
    }
}

/// A warm cache within an instrument.
#[derive(Debug)]
pub(crate) struct Watched<'a, I> {
    scene: &'a Scene,
    server: Server,
    instrument: I,
    /// The large file in the store.
    stored: PathBuf,
}

impl<I: Instrument> Watched<'_, I> {
    /// The cost of the operations of one slice of `row`: the cheapest of several slices.
    ///
    /// Nothing is sent before every thread of the server sleeps, so that it does the same for each request however quick
    /// the machine is.
    pub(crate) fn cheapest_slice(&mut self, row: &Row, cancelled: &AtomicBool) -> Result<I::Count> {
        let pid = self.server.pid();
        let mut client = self.scene.client(row, self.server.address())?;
        let holders = match row.use_by_others {
            UseByOthers::Open => self.scene.small.as_slice(),
            UseByOthers::Any | UseByOthers::Closed => &[],
        };
        let open = |file| open_session(self.server.address(), file);
        let _holders = holders.iter().map(open).collect::<Result<Vec<_>>>()?;
        let mut slices = Vec::new();
        // The first slice holds what is done once for each connection.
        for slice in 0..=SLICES {
            if row.use_by_others == UseByOthers::Closed {
                await_closes(pid)?;
                self.instrument.cut(pid)?;
            }
            for _ in 0..row.batches {
                wait_until_asleep(pid)?;
                if row.is_from_device {
                    drop_pages(&self.stored)?;
                }
                client.run(row, cancelled, || wait_until_asleep(pid))?;
            }
            if row.files == Files::Many {
                await_closes(pid)?;
            }
            wait_until_asleep(pid)?;
            let count = self.instrument.cut(pid)?;
            ensure!(count.served() > 0, "no thread of the server waits for sockets");
            if slice > 0 {
                slices.push(count);
            }
        }
        slices.into_iter().min_by_key(I::Count::served).context("there is more than one slice")
    }

    /// Reads everything twice, then waits until what follows from that is done.
    fn warm(&mut self, cancelled: &AtomicBool) -> Result<()> {
        let row = |files, operation| Row {
            name: "",
            protocol: Protocol::Root { is_encrypted: false },
            operation,
            order: Order::Sequential,
            pipeline: 1,
            batches: 1,
            use_by_others: UseByOthers::Any,
            files,
            is_from_device: false,
        };
        let rows = [
            (row(Files::Large, Operation::Read { len: WARM_READ_LEN }), LARGE_LEN / u64::from(WARM_READ_LEN)),
            (row(Files::Small, Operation::OpenReadClose), SMALL_FILES.into()),
            (row(Files::Many, Operation::OpenStatClose), MANY_FILES.into()),
        ];
        for (row, operations) in rows.iter().chain(&rows) {
            let mut load = self.scene.load(row, self.server.address(), Entry::default())?;
            load.run(Bound::Operations(*operations), cancelled).context("cannot warm the cache")?;
        }
        let start = clock::monotonic();
        self.instrument.cut(self.server.pid())?;
        loop {
            std::thread::sleep(QUIET_TIME);
            self.server.check_alive()?;
            if self.instrument.cut(self.server.pid())?.total() <= QUIET_COUNT {
                return Ok(());
            }
            ensure!(clock::monotonic() - start < QUIET_TIMEOUT, "the cache does not become quiet");
        }
    }
}

/// `forebay serve` with these arguments.
fn serve(forebay: &Path, args: &[&std::ffi::OsStr]) -> Program {
    let args = std::iter::once("serve".into()).chain(args.iter().map(|&arg| arg.to_owned())).collect();
    Program { path: forebay.to_owned(), args, env: Vec::new(), refuses_root: false }
}

fn start(name: &'static str, program: &Program, log: &Path) -> Result<Server> {
    Server::start(name, program, log, |log| ready_address(log, "ready root://"))
}

/// Lets `program` see a single processor, so that it has one thread for connections and no choice where to run what.
fn on_one_processor(program: Program) -> Result<Program> {
    let allowed = sched_getaffinity(None)?;
    let Some(processor) = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)) else {
        bail!("there is no processor");
    };
    let mut args = vec!["--cpu-list".into(), processor.to_string().into(), program.path.into_os_string()];
    args.extend(program.args);
    Ok(Program { path: "taskset".into(), args, ..program })
}

/// Drops a file from the page cache. One that lies in memory stays there.
fn drop_pages(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // Pages that are still to be written are not dropped.
    file.sync_all()?;
    Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Waits until process `pid` has dropped the state of files that were closed.
fn await_closes(pid: u32) -> Result<()> {
    // sleep: the server does not report this, but its threads sleep afterwards.
    std::thread::sleep(FORGET_TIME);
    wait_until_asleep(pid)
}

/// Waits until every thread of process `pid` sleeps: then it has done all there was to do.
fn wait_until_asleep(pid: u32) -> Result<()> {
    let start = clock::monotonic();
    while !is_asleep(pid)? {
        ensure!(clock::monotonic() - start < QUIET_TIMEOUT, "the server does not come to rest");
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

fn is_asleep(pid: u32) -> Result<bool> {
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).context("the server has gone")? {
        // A thread that has ended is at rest.
        let Ok(stat) = std::fs::read_to_string(task?.path().join("stat")) else { continue };
        let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next());
        if state != Some('S') {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_is_not_asleep() {
        assert!(!is_asleep(std::process::id()).unwrap());
    }
}

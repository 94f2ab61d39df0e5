//! Activity of clients: files that are open, and sums of what was read, by groups of clients, data and origins.

pub(crate) mod names;
mod recent;
mod sums;

use crate::{
    Client, HandleAccount, Metrics,
    file_events::{CloseEvent, FileEvents, OpenEvent, OpenPurpose, ReadEvents},
    groups::{Group, NamedSums},
    label::FileResult,
};
use forebay_types::{DataName, Lfn, OriginId, Outcome};
use parking_lot::{Mutex, MutexGuard};
use recent::{Names, Recent, RecentAccesses};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use sums::{Access, Overflow, Sums};

/// Names of each group that are counted by themselves if they are labels of metrics.
const METRIC_NAMES_MAX: usize = 32;

/// Names of each other group that are counted by themselves.
const NAMES_MAX: usize = 256;

/// Open files that are listed. More are served, but not listed.
const LISTED_OPENS_MAX: usize = 65_536;

/// Parts of what all threads add to: with as many threads, two rarely want the same one.
const PARTS: usize = 64;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Threads use different parts.
    static THREAD: usize = THREADS.fetch_add(1, Relaxed);
}

/// Hosts and origins whose site and region are remembered.
const DERIVED_MAX: usize = 4096;

/// Name of exported directories as an origin.
const LOCAL: &str = "local";

/// Names of the configuration that accesses are compared with.
#[derive(Clone, Debug, Default)]
pub struct ActivityOptions {
    /// Paths of the exports.
    pub exports: Vec<String>,
    /// Regions of origins, each with a pattern of host names; the first match counts.
    pub regions: Vec<(String, String)>,
}

/// Follows opens and closes. Cheap to clone; clones are one.
#[derive(Clone, Debug)]
pub struct Activity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: ActivityOptions,
    /// The start, by the monotonic clock and in seconds of the Unix epoch.
    start: (Instant, i64),
    metrics: Metrics,
    /// By the number of the open.
    open: [Part<BTreeMap<u64, Open>>; PARTS],
    /// By the thread of the close.
    recent: [Part<RecentAccesses>; PARTS],
    counted: Mutex<Counted>,
}

/// Starts at a cache line of its own: the use of one part must not slow down that of the next one.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Part<T>(Mutex<T>);

#[derive(Debug)]
struct Counted {
    /// In the order of [`Group::ALL`].
    groups: Vec<Sums>,
    /// Sites by host: their derivation costs more than a look here.
    sites: HashMap<String, Arc<str>>,
    /// Name and region of origins.
    origins: HashMap<OriginId, (Arc<str>, Arc<str>)>,
}

#[derive(Clone, Debug)]
struct Open {
    lfn: Lfn,
    client: Arc<Client>,
    size: u64,
    since: Instant,
    account: Arc<HandleAccount>,
}

/// A file that a client has open.
#[derive(Clone, Debug)]
pub struct OpenFile {
    pub lfn: String,
    pub user: String,
    pub host: String,
    pub program: String,
    pub size: u64,
    pub open_for: Duration,
    /// Bytes sent to the client so far, in the order of [`Outcome::ALL`].
    pub bytes: [u64; Outcome::ALL.len()],
}

impl Activity {
    /// Counts from `start` on, a time by the monotonic clock and in seconds of the Unix epoch. `metrics` exports the groups of
    /// few names.
    #[must_use]
    pub fn new(options: ActivityOptions, start: (Instant, i64), metrics: &Metrics) -> Self {
        let sums = |group: Group| {
            if group.is_in_metrics() {
                Sums::new(METRIC_NAMES_MAX, Overflow::CountElsewhere)
            } else {
                Sums::new(NAMES_MAX, Overflow::ReplaceSmallest)
            }
        };
        let groups = Group::ALL.map(sums).into();
        let counted = Mutex::new(Counted { groups, sites: HashMap::new(), origins: HashMap::new() });
        let (open, recent) = (std::array::from_fn(|_| Part::default()), std::array::from_fn(|_| Part::default()));
        let activity = Self(Arc::new(Inner { options, start, metrics: metrics.clone(), open, recent, counted }));
        // Weak, because the metrics belong to what they would keep alive.
        let watched = Arc::downgrade(&activity.0);
        metrics.watch_groups(move || watched.upgrade().map(|inner| Self(inner).exported()).unwrap_or_default());
        activity
    }

    /// The names of a group with their sums, most bytes first; `other` is the last one.
    #[must_use]
    pub fn sums(&self, group: Group) -> NamedSums {
        let position = Group::ALL.iter().position(|it| *it == group);
        let counted = self.0.counted_now();
        position.and_then(|position| counted.groups.get(position)).map(Sums::list).unwrap_or_default()
    }

    /// The open files at `now`, the one with most bytes first; at most `count`.
    #[must_use]
    pub fn open_files(&self, now: Instant, count: usize) -> Vec<OpenFile> {
        let mut files: Vec<(u64, Open)> = Vec::new();
        for part in &self.0.open {
            files.extend(part.0.lock().values().map(|open| (open.account.all_bytes(), open.clone())));
        }
        files.sort_by_key(|(bytes, open)| (std::cmp::Reverse(*bytes), open.since));
        let listed = |(_, open): (u64, Open)| OpenFile {
            lfn: open.lfn.as_str().to_owned(),
            user: open.client.user.clone(),
            host: open.client.host.clone(),
            program: open.client.program.clone(),
            size: open.size,
            open_for: now.saturating_duration_since(open.since),
            bytes: Outcome::ALL.map(|outcome| open.account.bytes(outcome)),
        };
        files.into_iter().take(count).map(listed).collect()
    }

    fn unix(&self, at: Instant) -> i64 {
        let (start, unix) = self.0.start;
        let since = at.saturating_duration_since(start).as_secs();
        unix.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    fn exported(&self) -> Vec<(Group, NamedSums)> {
        let groups = Group::ALL.into_iter().filter(|group| group.is_in_metrics());
        groups.map(|group| (group, self.sums(group))).collect()
    }
}

impl Inner {
    /// Opens that may be listed together with this one.
    fn opens_with(&self, open: u64) -> Option<&Mutex<BTreeMap<u64, Open>>> {
        self.open.get(usize::try_from(open % PARTS as u64).ok()?).map(|part| &part.0)
    }

    /// The sums, with all accesses in them.
    fn counted_now(&self) -> MutexGuard<'_, Counted> {
        let mut counted = self.counted.lock();
        for part in &self.recent {
            let recent = part.0.lock().take();
            counted.add(recent, &self.options);
        }
        counted
    }

    fn count(&self, names: &Names<'_>, access: &Access) {
        let part = self.recent.get(THREAD.with(|thread| *thread) % PARTS);
        // Let go of before the sums are locked, whose users lock the parts.
        let full = part.map(|part| part.0.lock().add(names, &access.sum())).unwrap_or_default();
        if !full.is_empty() {
            self.counted.lock().add(full, &self.options);
        }
    }
}

impl Counted {
    fn add(&mut self, accesses: Vec<Recent>, options: &ActivityOptions) {
        for recent in accesses {
            let names = recent.names();
            let site = self.site(names.host);
            let (origin, region) = self.origin(names.origin, &options.regions);
            let name = |group: Group| match group {
                Group::Export => names.export,
                Group::Tier => names.tier,
                Group::Dataset => names.dataset,
                Group::Organization => names.organization.unwrap_or(names::UNKNOWN),
                Group::User => names.user,
                Group::Site => &site,
                Group::Origin => &origin,
                Group::Region => &region,
            };
            self.groups.iter_mut().zip(Group::ALL.map(name)).for_each(|(sums, name)| sums.add(name, &recent.sum));
        }
    }

    fn site(&mut self, host: &str) -> Arc<str> {
        if let Some(site) = self.sites.get(host) {
            return Arc::clone(site);
        }
        if self.sites.len() >= DERIVED_MAX {
            self.sites.clear();
        }
        let site: Arc<str> = names::site_of(host).into();
        self.sites.insert(host.to_owned(), Arc::clone(&site));
        site
    }

    fn origin(&mut self, origin: Option<&OriginId>, regions: &[(String, String)]) -> (Arc<str>, Arc<str>) {
        let Some(origin) = origin else { return (LOCAL.into(), LOCAL.into()) };
        if let Some(known) = self.origins.get(origin) {
            return known.clone();
        }
        if self.origins.len() >= DERIVED_MAX {
            self.origins.clear();
        }
        let region = names::region_of(origin.endpoint.host(), regions);
        let derived: (Arc<str>, Arc<str>) = (origin.to_string().into(), region.into());
        self.origins.insert(origin.clone(), derived.clone());
        derived
    }
}

/// The result of an access, by the bytes that its client has got.
fn result_of(bytes: &[u64; Outcome::ALL.len()]) -> FileResult {
    let [hit, others @ ..] = bytes;
    match (*hit > 0, others.iter().any(|bytes| *bytes > 0)) {
        (true, false) => FileResult::Hit,
        (true, true) => FileResult::Partial,
        (false, true) => FileResult::Missed,
        (false, false) => FileResult::Unread,
    }
}

impl FileEvents for Activity {
    fn opened(&self, event: &OpenEvent<'_>) -> Option<Box<dyn ReadEvents>> {
        if event.purpose == OpenPurpose::Read {
            let open = Open {
                lfn: event.lfn.clone(),
                client: Arc::clone(event.client),
                size: event.size,
                since: event.at,
                account: Arc::clone(event.account),
            };
            let mut listed = self.0.opens_with(event.open)?.lock();
            if listed.len() < LISTED_OPENS_MAX / PARTS {
                listed.insert(event.open, open);
            }
        }
        None
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        if event.purpose != OpenPurpose::Read {
            return;
        }
        if let Some(opens) = self.0.opens_with(event.open) {
            opens.lock().remove(&event.open);
        }
        let bytes = Outcome::ALL.map(|outcome| event.account.bytes(outcome));
        let result = result_of(&bytes);
        self.0.metrics.add_file_read(result);
        let is_reuse = event.file.is_some_and(|file| file.accesses > 1);
        let access = Access { result, is_reuse, bytes, at: self.unix(event.at) };
        let data = DataName::of(event.lfn.as_str());
        let options = &self.0.options;
        let export = names::export_of(event.lfn.as_str(), &options.exports);
        let Client { user, host, organization, .. } = event.client;
        let (organization, origin) = (organization.as_deref(), event.origin);
        let names = Names { user, host, organization, origin, export, tier: data.tier, dataset: &data.dataset };
        self.0.count(&names, &access);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileUse, Sum};
    use forebay_types::Endpoint;

    struct Site {
        metrics: Metrics,
        activity: Activity,
        now: Instant,
    }

    fn site() -> Site {
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        let now = Instant::now();
        let metrics = Metrics::new();
        let exports = vec!["/store".to_owned()];
        let activity = Activity::new(ActivityOptions { exports, ..Default::default() }, (now, 1_000), &metrics);
        Site { metrics, activity, now }
    }

    impl Site {
        /// Opens and closes a file of which a client gets `hit` and `missed` bytes, and runs `between` in between.
        fn access(&self, (path, user): (&str, &str), (hit, missed): (u64, u64), between: impl FnOnce()) {
            let (lfn, handle) = (Lfn::parse(path).unwrap(), self.metrics.open_handle());
            let client = Client { user: user.to_owned(), host: "wn1.example.org".to_owned(), ..Client::default() };
            let client = Arc::new(client);
            let origin: OriginId = Endpoint::new("eos.cern.ch", 1094).into();
            let (client, lfn, origin, account) = (&client, &lfn, Some(&origin), handle.shared());
            let (open, at, size, purpose) = (7, self.now, 100, OpenPurpose::Read);
            self.activity.opened(&OpenEvent { open, at, client, lfn, origin, size, purpose, account });
            handle.account(Outcome::Hit, hit);
            handle.account(Outcome::Missed, missed);
            between();
            let file = FileUse { accesses: 2, ..FileUse::default() };
            let (at, duration) = (self.now + Duration::from_secs(5), Duration::from_secs(5));
            let (opens, file) = (1, Some(&file));
            let event = CloseEvent { open, at, client, lfn, origin, size, purpose, account, duration, opens, file };
            self.activity.closed(&event);
        }
    }

    #[test]
    fn a_close_counts_in_every_group_and_in_the_metrics() {
        let site = site();
        let path = "/store/mc/Era/TTbar/AODSIM/v1/00/f.root";
        site.access((path, "ann"), (10, 0), || ());
        site.access((path, "bob"), (5, 20), || ());
        site.access((path, "bob"), (0, 0), || ());
        for (group, name) in [
            (Group::Export, "/store"),
            (Group::Tier, "AODSIM"),
            (Group::Organization, "unknown"),
            (Group::Region, "ch"),
            (Group::Dataset, "/TTbar/Era-v1/AODSIM"),
            (Group::Site, "example.org"),
            (Group::Origin, "eos.cern.ch:1094"),
        ] {
            let expected = Sum { accesses: 3, hits: 1, reused: 3, bytes: [15, 20, 0, 0], last: 1_005 };
            assert_eq!(site.activity.sums(group), [(name.to_owned(), expected)]);
        }
        let users: Vec<_> =
            site.activity.sums(Group::User).into_iter().map(|(name, sum)| (name, sum.accesses)).collect();
        assert_eq!(users, [("bob".to_owned(), 2), ("ann".to_owned(), 1)]);
        let metrics = site.metrics.render().unwrap();
        for line in [
            r#"forebay_files_read_total{result="hit"} 1"#,
            r#"forebay_files_read_total{result="partial"} 1"#,
            r#"forebay_files_read_total{result="unread"} 1"#,
            r#"forebay_group_accesses_total{by="tier",name="AODSIM"} 3"#,
            r#"forebay_group_client_bytes_total{by="export",name="/store",outcome="missed"} 20"#,
        ] {
            assert!(metrics.lines().any(|it| it == line), "{line} not in {metrics}");
        }
        assert!(!metrics.contains("bob"), "metrics name no users");
    }

    #[test]
    fn open_files_are_listed_until_they_are_closed() {
        let site = site();
        site.access(("/store/f", "ann"), (10, 1), || {
            let files = site.activity.open_files(site.now + Duration::from_secs(2), 10);
            let [file] = files.as_slice() else { panic!("{files:?}") };
            assert_eq!((file.lfn.as_str(), file.user.as_str(), file.size), ("/store/f", "ann", 100));
            assert_eq!((file.bytes, file.open_for), ([10, 1, 0, 0], Duration::from_secs(2)));
            assert!(site.activity.open_files(site.now, 0).is_empty());
        });
        assert!(site.activity.open_files(site.now, 10).is_empty());
    }
}

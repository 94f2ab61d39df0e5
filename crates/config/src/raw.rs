//! Every setting there is: the mirror of the file, and the only place where settings are declared.

use crate::declare::{Section, Setting, Value, section};
use std::ops::Range;
use toml::Spanned;

mod security;

pub(crate) use security::{RawAuthentication, RawBinding, RawCredential, RawGrant, RawIssuer};

/// A list of texts, each with its place in the file.
pub(crate) type Texts = Vec<Spanned<String>>;

/// The file as it is written.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Raw {
    pub(crate) server: RawServer,
    pub(crate) tls: RawTls,
    pub(crate) authentication: RawAuthentication,
    pub(crate) binding: Vec<Spanned<RawBinding>>,
    pub(crate) issuer: Vec<Spanned<RawIssuer>>,
    pub(crate) grant: Vec<Spanned<RawGrant>>,
    pub(crate) credential: Vec<Spanned<RawCredential>>,
    pub(crate) admin: RawAdmin,
    pub(crate) store: RawStore,
    pub(crate) disk: Vec<Spanned<RawDisk>>,
    pub(crate) index: RawIndex,
    pub(crate) purge: RawPurge,
    pub(crate) quota: Vec<Spanned<RawQuota>>,
    pub(crate) expiry: Vec<Spanned<RawExpiry>>,
    pub(crate) integrity: RawIntegrity,
    pub(crate) memory: RawMemory,
    pub(crate) export: Vec<Spanned<RawExport>>,
    pub(crate) forwarding: RawForwarding,
    pub(crate) direct: RawDirect,
    pub(crate) manager: RawManager,
    pub(crate) decision: RawDecision,
    pub(crate) rule: Vec<Spanned<RawRule>>,
    pub(crate) read_ahead: RawReadAhead,
    pub(crate) origin: RawOrigin,
    pub(crate) logging: RawLogging,
    pub(crate) trace: RawTrace,
}

/// All tables, in the order of the example file.
pub(crate) const SECTIONS: &[Section] = &[
    RawServer::SECTION,
    RawTls::SECTION,
    RawAuthentication::SECTION,
    RawBinding::SECTION,
    RawIssuer::SECTION,
    RawGrant::SECTION,
    RawCredential::SECTION,
    RawAdmin::SECTION,
    RawStore::SECTION,
    RawDisk::SECTION,
    RawIndex::SECTION,
    RawPurge::SECTION,
    RawQuota::SECTION,
    RawExpiry::SECTION,
    RawIntegrity::SECTION,
    RawMemory::SECTION,
    RawExport::SECTION,
    RawForwarding::SECTION,
    RawDirect::SECTION,
    RawManager::SECTION,
    RawDecision::SECTION,
    RawRule::SECTION,
    RawReadAhead::SECTION,
    RawOrigin::SECTION,
    RawLogging::SECTION,
    RawTrace::SECTION,
];

/// The tables that may be written several times, as `[[export]]`.
pub(crate) const LIST_SECTIONS: [&str; 9] =
    ["binding", "issuer", "grant", "credential", "disk", "quota", "expiry", "export", "rule"];

/// The declaration of `table.key`.
pub(crate) fn setting(name: &str) -> Option<&'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings).find(|setting| setting.name == name)
}

impl Raw {
    /// Where each setting has its value, in bytes of the file; settings of lists as `export[0].path`.
    pub(crate) fn written(&self) -> Vec<(String, Range<usize>)> {
        let tables = [
            self.server.written(),
            self.tls.written(),
            self.authentication.written(),
            self.admin.written(),
            self.store.written(),
            self.index.written(),
            self.purge.written(),
            self.integrity.written(),
            self.memory.written(),
            self.forwarding.written(),
            self.direct.written(),
            self.manager.written(),
            self.decision.written(),
            self.read_ahead.written(),
            self.origin.written(),
            self.logging.written(),
            self.trace.written(),
        ];
        let lists = [
            in_list("binding", self.binding.iter().map(|binding| binding.get_ref().written())),
            in_list("issuer", self.issuer.iter().map(|issuer| issuer.get_ref().written())),
            in_list("grant", self.grant.iter().map(|grant| grant.get_ref().written())),
            in_list("credential", self.credential.iter().map(|credential| credential.get_ref().written())),
            in_list("disk", self.disk.iter().map(|disk| disk.get_ref().written())),
            in_list("quota", self.quota.iter().map(|quota| quota.get_ref().written())),
            in_list("expiry", self.expiry.iter().map(|expiry| expiry.get_ref().written())),
            in_list("export", self.export.iter().map(|export| export.get_ref().written())),
            in_list("rule", self.rule.iter().map(|rule| rule.get_ref().written())),
        ];
        let tables = tables.into_iter().flatten().map(|(name, span)| (name.to_owned(), span));
        tables.chain(lists.into_iter().flatten()).collect()
    }
}

/// The settings of the tables of a list, named by their place in it.
fn in_list(list: &str, tables: impl Iterator<Item = Vec<(&'static str, Range<usize>)>>) -> Vec<(String, Range<usize>)> {
    let numbered = tables.enumerate().flat_map(|(index, written)| {
        let name = move |name: &str| name.replacen(list, &format!("{list}[{index}]"), 1);
        written.into_iter().map(move |(setting, span)| (name(setting), span))
    });
    numbered.collect()
}

section! {
    /// The `root://` front: where clients connect, and what each of them may use.
    "server" RawServer {
        /// Addresses to listen at, each `ADDRESS:PORT`. `[::]` takes IPv4 as well; port 0 picks a free port.
        listen: Texts = Value::default(r#"["0.0.0.0:1094"]"#).example(r#"["0.0.0.0:1094"]"#).flag("--listen"),
        /// What the server does: `cache` everything; `filler` the same, and complete files are opened to others at once, for managers;
        /// `manager` sends clients to complete files of a store that a filler on this or another machine fills, with everything else to
        /// that filler, and to the origin while that does not answer. `store.path` is the same directory for both.
        role: String = Value::default(r#""cache""#),
        /// User that the server becomes when root starts it, after these addresses are taken: a name of `/etc/passwd`, or `UID:GID`. Files
        /// are read and written as that user.
        user: String = Value::none().sample(r#""forebay""#),
        /// Client connections at the same time, parallel streams included; more are closed at once.
        connections_max: u64 = Value::default("16384"),
        /// Of these, those that one client address may have (of IPv6, one network of 64 bits); three quarters, unless written.
        connections_per_address_max: u64 = Value::none().sample("4096"),
        /// Of these, those that one client address may have before their login is done; half, unless written.
        logins_per_address_max: u64 = Value::none().sample("1024"),
        /// Sessions that one identity may have that was proven (certificate, token, shared secret); any number, unless written.
        sessions_per_identity_max: u64 = Value::none().sample("4096"),
        /// Files that one client session may hold open, at most 65536.
        handles_per_session_max: u64 = Value::default("8192"),
        /// Requests of one connection that wait for the origin or the disk at the same time.
        requests_outstanding_max: u64 = Value::default("256"),
        /// Time within which a new connection must have logged in.
        login_time_max: String = Value::default(r#""30s""#),
        /// Time within which a client must take some of the bytes that wait for it.
        write_stall_max: String = Value::default(r#""60s""#),
        /// Time after which a connection without a request and without an open file is closed; never, unless written.
        idle_time_max: String = Value::none().sample(r#""1h""#),
        /// Silence after which a waiting client is told to go on waiting. Clients reconnect after 60s of silence.
        wait_response_after: String = Value::default(r#""10s""#),
        /// Time that requests under way have to finish when the server is told to stop.
        shutdown_time_max: String = Value::default(r#""30s""#),
        /// Name of the site, told to clients that ask for it.
        site_name: String = Value::none().sample(r#""EXAMPLE-SITE""#),
        /// Name by which clients reach this server, told by locate; unless written they get the address they used.
        host_name: String = Value::none().sample(r#""cache.example.org""#),
        /// Checksum algorithms told to clients, the default one first. The origin decides which it really has.
        checksum_algorithms: Texts = Value::default(r#"["adler32", "crc32c"]"#),
    }
}

section! {
    /// Encryption. Clients get it with a certificate of this host; connections to origins use the rest. Files are read again
    /// when they change.
    "tls" RawTls {
        /// PEM file with the host's certificate, and behind it those that lead to its CA. No TLS for clients unless written.
        certificate: String = Value::none().sample(r#""/etc/grid-security/hostcert.pem""#),
        /// PEM file with its private key, readable by the server's user and not by everybody; unless written, it is in the file of
        /// the certificate.
        key: String = Value::none().sample(r#""/etc/grid-security/hostkey.pem""#),
        /// What is demanded of clients: `capable` nothing, who wants TLS gets it; `login` TLS from before the login; `session` TLS
        /// from behind the login; `data` as `session`, also for parallel streams; `all` as `login`, also for parallel streams.
        policy: String = Value::default(r#""capable""#),
        /// Directory of trusted CAs and their revocation lists under OpenSSL's hashed names, for clients and origins.
        ca_dir: String = Value::default(r#""/etc/grid-security/certificates""#),
        /// What revocation lists mean: `ignore` nothing; `try` whoever is on one is refused; `require` each CA must have a current
        /// one too.
        crl: String = Value::default(r#""try""#),
        /// Whether clients are asked for a certificate. They need not have one.
        client_certificates: bool = Value::default("true"),
        /// Cipher suites of TLS 1.2 in OpenSSL's notation; those with forward secrecy and authenticated encryption, unless written.
        ciphers: String = Value::none().sample(r#""ECDHE+AESGCM""#),
        /// Time within which a client must finish the handshake.
        handshake_time_max: String = Value::default(r#""10s""#),
    }
}

section! {
    /// The admin port: `/metrics` (OpenMetrics), `/healthz`, `/readyz` and the administration API over HTTP. Off unless written.
    "admin" RawAdmin {
        /// Address to listen at. Metrics and probes are not protected there: keep it on a private network.
        listen: String = Value::none().example(r#""127.0.0.1:9090""#).flag("--admin-listen"),
        /// File with the token that opens the administration API at that address; not readable by others. Closed unless written.
        token_file: String = Value::none().sample(r#""/etc/forebay/admin.token""#),
        /// Unix socket of the administration API, for root and the server's own user, without a token.
        socket: String = Value::none().sample(r#""/run/forebay/admin.sock""#).flag("--admin-socket"),
        /// Group whose members may use the socket too: a name of `/etc/group`, or a number.
        socket_group: String = Value::none().sample(r#""forebay-admin""#),
    }
}

section! {
    /// How files are kept.
    "store" RawStore {
        /// Directory in which files are kept, created if need be: the short form of one `[[disk]]`. One process at a time may
        /// use it. An XCache directory may be taken over.
        path: String = Value::none().sample(r#""/var/cache/forebay""#).flag("--store"),
        /// Block size of files that are new in the cache: a multiple of 4KiB from 4KiB to 512MiB.
        block_size: String = Value::default(r#""64KiB""#).flag("--block-size"),
        /// Age at which written blocks are synced and recorded. A crash costs no more than this.
        sync_interval: String = Value::default(r#""5s""#),
        /// Permissions of new files, whatever the umask: at most `0644`. Files that are there already keep theirs.
        file_mode: String = Value::default(r#""0600""#),
        /// Permissions of new directories, at most `0755`.
        directory_mode: String = Value::default(r#""0700""#),
        /// Group of new files and directories, one that the server's user is in: a name of `/etc/group`, or a number. That of the server,
        /// unless written.
        group: String = Value::none().sample(r#""xrootd""#),
    }
}

section! {
    /// A disk on which files are kept; one at least as soon as anything is cached. May be written several times: each file lies
    /// on one of the disks. One that fails or is absent costs the files it holds, until it is back.
    "disk" RawDisk {
        /// Directory of an XCache, or an empty one. When there are several disks it must exist, so that nothing is written
        /// below a mount point whose file system is not mounted.
        path: String = Value::none().example(r#""/var/cache/forebay""#),
        /// Share of new files, relative to the other disks', for the same room; 1 to 1000.
        weight: u64 = Value::default("1"),
        /// Whether the directory must be a mount point: otherwise the disk is taken to be absent.
        mounted: bool = Value::default("false"),
    }
}

section! {
    /// The index: what is known of cached files beside their records. It is made again from the disk when it is lost.
    "index" RawIndex {
        /// The file; `.forebay/index` on the first disk, unless written. A quick disk suits it well: 1 KiB for each file cached.
        path: String = Value::none().sample(r#""/var/lib/forebay/index""#),
        /// Bytes of it that are held in memory at most: 4MiB to 64GiB.
        cache: String = Value::default(r#""64MiB""#),
    }
}

section! {
    /// What is removed to make room, and when. Marks are percentages or sizes: of each file system, or of the budget if there is one.
    "purge" RawPurge {
        /// Which files go first: `lru` (longest unused), `s3-fifo` (used only once), `gdsf` (large and rarely used).
        policy: String = Value::default(r#""lru""#),
        /// What the cache may take on all disks together; unless written, the file systems are the bounds.
        budget: String = Value::none().sample(r#""50TiB""#).flag("--budget"),
        /// Use above which files are removed.
        high: String = Value::default(r#""95%""#),
        /// Use down to which they are removed.
        low: String = Value::default(r#""90%""#),
        /// Inodes that the cache may take, two for each file; unless written, the file systems are the bounds.
        budget_inodes: u64 = Value::none().sample("20000000"),
        /// Inodes in use above which files are removed: a percentage or a number.
        inodes_high: String = Value::default(r#""95%""#),
        /// Inodes in use down to which they are removed.
        inodes_low: String = Value::default(r#""90%""#),
        /// Room on each file system that is kept free of the cache, whatever else is said: a percentage or a size.
        free_min: String = Value::none().sample(r#""100GiB""#),
        /// Files that were not used for longer are removed, although there is room; never, unless written.
        age_max: String = Value::none().sample(r#""90d""#),
        /// How often the room is measured. Writes that meet a mark do not wait for that.
        interval: String = Value::default(r#""10s""#),
    }
}

section! {
    /// Bounds of a part of the cache. May be written several times; the longest path counts.
    "quota" RawQuota {
        /// Files at and below this path; files of origins that clients name are below `/root:/HOST:PORT`.
        path: String = Value::none().example(r#""/store/user""#),
        /// What is not taken from these files to make room for others.
        min: String = Value::none().sample(r#""1TiB""#),
        /// What these files may take.
        max: String = Value::none().example(r#""10TiB""#),
    }
}

section! {
    /// How long files stay that nobody uses, however much room there is. May be written several times: the first one that matches
    /// a file decides, and where none does, `purge.age_max`.
    "expiry" RawExpiry {
        /// Files, by a pattern as that of a rule; all, unless written.
        path: String = Value::none().sample(r#""/store/user/**""#),
        /// Virtual organization of the client that the file was fetched for, if it was proven; `*` is any run of characters. Of any or none,
        /// unless written.
        vo: String = Value::none().sample(r#""cms""#),
        /// Files that were not used for longer are removed, or `never`; `1s` at least.
        unused: String = Value::none().sample(r#""30d""#),
    }
}

section! {
    /// Whether what the disk gives back is what was written. Damaged blocks are dropped and fetched again.
    "integrity" RawIntegrity {
        /// When blocks on disk are compared with their checksums: `first-read`, before their first use after a start, or `never`.
        check: String = Value::default(r#""first-read""#),
        /// Bytes in a second that a scrub reads, which looks for damage in what nobody reads.
        scrub_rate: String = Value::default(r#""20MiB""#),
        /// Time from the end of a scrub to the begin of the next, or `off`: only when somebody asks for one.
        scrub_interval: String = Value::default(r#""30d""#),
        /// Checksums made of files that are complete: `adler32`, `crc32c`, `md5`. The first one answers who names none.
        checksums: Texts = Value::default(r#"["adler32", "crc32c"]"#),
        /// Bytes in a second that are read for these.
        checksum_rate: String = Value::default(r#""200MiB""#),
        /// Whether they are compared with those of the origin, where it has them. A file that differs is dropped.
        compare: bool = Value::default("true"),
    }
}

section! {
    /// Memory for data on its way. Hits need none: they are sent from the page cache of the operating system.
    "memory" RawMemory {
        /// Bytes that all buffers together may hold: 16MiB to 1TiB, and at least four times the block size.
        budget: String = Value::default(r#""1GiB""#).example(r#""1GiB""#).flag("--memory"),
    }
}

section! {
    /// A part of the name space and where its files come from. May be written several times; the longest path wins.
    "export" RawExport {
        /// Paths at and below this one.
        path: String = Value::default(r#""/""#).example(r#""/store""#).live(),
        /// Servers that hold the files, each `root://HOST:PORT`, or `roots://HOST:PORT` to be used over TLS only. They are
        /// interchangeable, and tried in this order.
        origins: Texts = Value::none()
            .example(r#"["root://origin-1.example.org:1094", "root://origin-2.example.org:1094"]"#)
            .flag("--origin")
            .live(),
        /// Instead of origins: a directory of this machine, served read-only and as it is.
        directory: String = Value::none().sample(r#""/srv/data""#).flag("--export-dir").live(),
        /// What happens to clients that want to write: `refuse`, or `redirect` them to the first origin.
        writes: String = Value::default(r#""refuse""#).flag("--writes").live(),
        /// How often copies are compared with their origin when they are opened: `immutable` for never, `each-open`, or how old a
        /// good check may be, such as `"1h"`.
        validity: String = Value::default(r#""immutable""#).live(),
        /// How long a copy whose check is due is served while the origin cannot be asked; `unlimited`, or `"0s"` for not at all.
        stale_max: String = Value::default(r#""1h""#).live(),
        /// Whether files are told apart by the origin's checksum too, beside size and time of change: a question more for each check
        /// and each new copy.
        compare_checksum: bool = Value::default("false").live(),
        /// Whether the origin is asked, with the client's own token or delegated proxy, whether it would give the client a file, before
        /// the client gets what is here. Its leave counts for 5min, its refusal for 10s.
        origin_check: bool = Value::default("false"),
        /// Which files clients that see the cache's file system read on their own: `never`, or `complete` ones. See [direct].
        direct: String = Value::default(r#""never""#).flag("--direct").live(),
        /// What becomes of opens of files that are not complete: `proxy`, the client reads through the cache; `redirect`, the client is sent to the
        /// origin, which it must be able to reach, and the cache fetches the file by itself, to its end whatever `fill` says.
        miss: String = Value::default(r#""proxy""#).flag("--miss").live(),
        /// How much of a file is fetched: `on-demand-blocks` what is read; `while-open` all of it as long as a client has it open, and the
        /// rest when it is opened again; `to-end` all of it, also when the last client has left. As `read_ahead.fill`, unless written; a rule may say otherwise.
        fill: String = Value::none().sample(r#""while-open""#).flag("--fill").live(),
    }
}

section! {
    /// Forwarding: clients name the origin in the path, as in `root://CACHE//root://ORIGIN//path`.
    "forwarding" RawForwarding {
        /// Origins that clients may name: `HOST`, `HOST:PORT` or `HOST:*`; `*` in HOST stands for any run of characters.
        allow: Texts = Value::default("[]").example(r#"["*.example.org:1094"]"#).flag("--forwarding").live(),
        /// As `validity` of an export.
        validity: String = Value::default(r#""immutable""#).live(),
        /// As `stale_max` of an export.
        stale_max: String = Value::default(r#""1h""#).live(),
        /// As `compare_checksum` of an export.
        compare_checksum: bool = Value::default("false").live(),
        /// As `origin_check` of an export.
        origin_check: bool = Value::default("false"),
        /// As `direct` of an export.
        direct: String = Value::default(r#""never""#).live(),
        /// As `miss` of an export.
        miss: String = Value::default(r#""proxy""#).live(),
        /// As `fill` of an export.
        fill: String = Value::none().sample(r#""while-open""#).live(),
    }
}

section! {
    /// Direct access: clients that see the file system of the cache are sent to its complete files, and read them on their own.
    "direct" RawDirect {
        /// Addresses of these clients, in which `*` stands for any run of characters, or networks such as `10.1.0.0/16`. Names are not looked up.
        clients: Texts = Value::default(r#"["127.*", "::1"]"#).example(r#"["127.*", "::1", "10.1.0.0/16"]"#),
        /// Whether they have to prove that they see it: `none`, or `client`: only opens that bring what is in the file `.forebay-probe` of the (first) store are sent
        /// to files.
        probe: String = Value::default(r#""none""#),
        /// Where they see directories of the store, each `DIRECTORY=WHERE`; the first that matches counts. Others they see where they are.
        paths: Texts = Value::default("[]").sample(r#"["/srv/cache=/mnt/cache"]"#),
        /// Permission bits that complete files get when clients are sent to them; others keep store.file_mode, which must not let anybody else read.
        file_mode: String = Value::default(r#""0644""#),
        /// How long a file that a client was sent to is not purged; the client does not tell when it has closed it.
        lease: String = Value::default(r#""15min""#),
        /// Whether these clients may read by pages. Who has a file open when it is complete is sent to it in answer to a read, but not to a read of pages,
        /// as `xrdcp` makes them unless this is false.
        page_reads: bool = Value::default("true"),
    }
}

section! {
    /// A data manager (`server.role`): it sends clients to the complete files of a store that another process fills.
    "manager" RawManager {
        /// Where clients reach the filler, `root://HOST:PORT`; unless written, where it says itself, in the store.
        filler: String = Value::none().sample(r#""root://filler.example.org:1094""#),
    }
}

section! {
    /// What is decided about opens of files of origins, beside the rules.
    "decision" RawDecision {
        /// A file that is there in part counts as cached when it is not larger than this, or this much of it is there, and
        /// `cached_fraction_min` of it is. It matters to clients that ask whether a file is cached, or want it `only-if-cached`.
        cached_size_min: String = Value::default(r#""1MiB""#).live(),
        /// See `cached_size_min`: from 0.0 to 1.0. Complete files always count as cached.
        cached_fraction_min: f64 = Value::default("1.0").live(),
        /// How long a name that an origin has not is remembered; `"0s"` for not at all. Reading the file again forgets all.
        negative_time: String = Value::default(r#""5s""#).live(),
        /// How long an open waits for its copy to be compared with the origin; then the check counts as failed.
        check_time_max: String = Value::default(r#""10s""#).live(),
    }
}

section! {
    /// A rule on what becomes of opens of files of origins. May be written several times: the first one that matches decides, and
    /// without one files are cached. A condition that is not written holds for every open.
    "rule" RawRule {
        /// Paths: `*` is any run of characters within a component, `?` one of them, `**` any run across components. The path of a
        /// file whose origin the client names is `/root:/HOST:PORT/path`.
        path: String = Value::none().sample(r#""/store/user/**""#).live(),
        /// Least size of the file. Where it decides, and the file is not in the cache, the origin is asked for its size first.
        size_min: String = Value::none().sample(r#""100GiB""#).live(),
        /// Largest size of the file.
        size_max: String = Value::none().sample(r#""4KiB""#).live(),
        /// User name of the client, as it gave it (nothing proves it); `*` is any run of characters.
        user: String = Value::none().sample(r#""prod*""#).live(),
        /// Address of the client; `*` is any run of characters.
        host: String = Value::none().sample(r#""192.0.2.*""#).live(),
        /// Opaque data of the request, all of it: each `key=value`, or `key` for any value; `*` is any run of characters.
        cgi: Texts = Value::none().sample(r#"["cache=no"]"#).live(),
        /// What becomes of the open: `cache`; `bypass` reads from the origin and keeps nothing; `redirect` sends the client to the
        /// origin, which it must be able to reach.
        action: String = Value::default(r#""cache""#).live(),
        /// Block size of files that are new in the cache, instead of that of the store; files already there keep theirs.
        block_size: String = Value::none().sample(r#""1MiB""#).live(),
        /// Whether files are read ahead.
        read_ahead: bool = Value::none().sample("false").live(),
        /// How far an open file is read ahead at most.
        window_max: String = Value::none().sample(r#""64MiB""#).live(),
        /// Once this many percent of a file are in the cache, the rest is fetched too; 1 to 100.
        complete_after: u64 = Value::none().sample("30").live(),
        /// How much of a file is fetched, as `fill` of an export.
        fill: String = Value::none().sample(r#""to-end""#).live(),
    }
}

section! {
    /// Fetching before anybody asks: what a reader will read next, and the rest of files. Rules may say otherwise for some files.
    "read_ahead" RawReadAhead {
        /// Whether sequential reads, strides and repeated vectors are recognised and read ahead.
        enabled: bool = Value::default("true"),
        /// How far an open file is read ahead at most: while others wait for bytes, by twice what the way to the origin carries
        /// within its latency; otherwise by four times what was read of it in one run.
        window_max: String = Value::default(r#""32MiB""#),
        /// Bytes that may be under way from one origin without a reader waiting for them.
        origin_max: String = Value::default(r#""64MiB""#),
        /// The share of the memory that such bytes may hold, in percent: 0 to 50. Half of the memory stays free for readers.
        memory_percent: u64 = Value::default("25"),
        /// Once this many percent of a file are in the cache, the rest is fetched too: 1 to 100. Never, unless written.
        complete_after: u64 = Value::none().sample("30"),
        /// How much of a file is fetched where its export does not say: `on-demand-blocks` (or `on-demand`) what is read; `while-open`
        /// all of it as long as a client has it open; `to-end` all of it, also when the last client has left.
        fill: String = Value::default(r#""on-demand-blocks""#),
    }
}

section! {
    /// How origins are used.
    "origin" RawOrigin {
        /// Time limit of making a connection, from name resolution to login.
        connect_timeout: String = Value::default(r#""10s""#),
        /// Longest silence of a connection that owes an answer of which no byte has come.
        first_byte_timeout: String = Value::default(r#""60s""#),
        /// Longest silence of a connection in the middle of an answer.
        stall_timeout: String = Value::default(r#""30s""#),
        /// Time limit of an operation with all its redirects, waits and retries; a read starts anew with each byte.
        deadline: String = Value::default(r#""10min""#),
        /// Longest single pause that an origin may impose before it is asked again.
        wait_max: String = Value::default(r#""60s""#),
        /// Tries of an open, stat, listing or checksum.
        attempts: u64 = Value::default("5"),
        /// Tries of a read of an open file without a byte of progress.
        read_attempts: u64 = Value::default("10"),
        /// Connections of one session with a server: the main one and parallel streams for large reads; 1 to 16.
        streams: u64 = Value::default("1"),
        /// How long a server that could not be reached is passed over when there is another one.
        circuit_time: String = Value::default(r#""30s""#),
        /// How long a connection that nobody uses is kept.
        idle_timeout: String = Value::default(r#""5min""#),
        /// Whether bytes are asked for with checksums on their way, where the server has them.
        page_reads: bool = Value::default("true"),
        /// PEM file with the certificate shown to origins that ask for one in the TLS handshake; none, unless written.
        certificate: String = Value::none().sample(r#""/etc/forebay/robot.pem""#),
        /// PEM file with its private key; unless written, it is in the file of the certificate.
        key: String = Value::none().sample(r#""/etc/forebay/robot.key""#),
    }
}

section! {
    /// The log, on standard error. The target `forebay::access` has one line for each file a client closes.
    "logging" RawLogging {
        /// `text`, or `json` with one object per line.
        format: String = Value::default(r#""text""#),
        /// What is logged: `error`, `warn`, `info`, `debug`, `trace`, also by target, as in `info,forebay_origin=debug`.
        filter: String = Value::default(r#""info""#).flag("--log").live(),
    }
}

section! {
    /// A trace of what clients read: a line of JSON for each open, read and close, in files that are rotated (`docs/trace.md`). Off
    /// unless written.
    "trace" RawTrace {
        /// Directory of the files `trace-*.jsonl`, created if need be; nothing else is to be kept there under such names.
        path: String = Value::none().sample(r#""/var/log/forebay/trace""#),
        /// The part of all opens whose reads are traced: `1/10` for one of ten, drawn by chance.
        sample: String = Value::default(r#""1/1""#),
        /// Patterns, as those of rules, of the files that are traced; all files, unless written.
        only: Texts = Value::none().sample(r#"["/store/user/**"]"#),
        /// Size at which a file is ended and the next one begun: 64KiB to 64GiB.
        file_size: String = Value::default(r#""256MiB""#),
        /// Files that are kept; older ones are removed. 1 to 100000.
        files: u64 = Value::default("8"),
    }
}

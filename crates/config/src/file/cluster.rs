//! Settings of the membership of a cluster.

use super::declare::{Value, section};
use crate::{
    config::Config,
    value::{DnsName, List, MemberPort, Number},
};
use forebay_cluster::{MANAGERS_MAX, MEMBERS_MAX, Placement};
use forebay_types::Lfn;

/// Longest list of paths: a login must fit one message.
const PATHS_MAX: usize = 64;

section! {
    /// Membership of an XRootD cluster with stock managers (`cmsd`), which redirect clients to this server (`docs/scale-out.md`).
    /// Disabled by default.
    "cluster" RawCluster => Config {
        /// Managers to log in to, each `HOST:PORT` with the port of their `cmsd`. They see the address from which this server connects.
        managers: List<MemberPort, 0, MANAGERS_MAX> => cluster.managers = Value::default("[]").sample(r#"["redirector.example.org:1213"]"#).flag("--cluster-manager"),
        /// Data ports of all members, each `HOST:PORT`, this server included; the same list on all of them. A new file goes to the member
        /// that its name selects, without a wait. Members exchange UDP datagrams between these ports. Default: the manager selects a
        /// member for a new file after a wait (`cms.delay lookup`).
        members: List<MemberPort, 0, MEMBERS_MAX> => cluster.members = Value::default("[]").sample(r#"["cache-1.example.org:1094", "cache-2.example.org:1094"]"#).flag("--cluster-member"),
        /// Name with one address for each member (such as a headless service of Kubernetes), and their data port; read again every 30 s.
        discover: MemberPort = Value::none().sample(r#""caches.example.org:1094""#),
        /// Name of this server for clients that are redirected to it, if the managers cannot resolve its address.
        /// Default: `server.host_name`, or the name of the machine.
        host: DnsName => cluster.host = Value::none().sample(r#""cache-1.example.org""#),
        /// Paths that this server serves in the cluster. Default: the paths of the exports, and `/` with forwarding.
        paths: List<Lfn, 0, PATHS_MAX> = Value::none().sample(r#"["/store"]"#),
        /// Part of the path that selects the member for a new file: `file`, or `directory` to keep files of a directory together.
        placement: Placement => cluster.placement = Value::default(r#""file""#),
        /// Concurrent opens of a file from which on a second member serves it, too.
        shared_from_opens: Number<u32, 2, 1_000_000> => cluster.shared_from_opens = Value::default("50"),
    }
}

//! Activity of clients.

use super::Server;
use crate::{
    model::{Activity, ByteCounts, GroupSums, NamedSum, OPEN_FILES_MAX, OpenFile},
    problem::{Problem, ProblemKind},
};
use forebay_telemetry::Group;
use forebay_types::Outcome;

pub(crate) fn get(server: &Server) -> Result<Activity, Problem> {
    let Some(activity) = &server.activity else {
        return Err(Problem::new(ProblemKind::NotSetUp, "this server does not follow its clients"));
    };
    let open = activity.open_files(forebay_net::clock::monotonic(), OPEN_FILES_MAX).into_iter().map(|open| OpenFile {
        name: open.lfn,
        user: open.user,
        host: open.host,
        program: open.program,
        size: open.size,
        open_seconds: open.open_for.as_secs_f64(),
        bytes: byte_counts(open.bytes),
    });
    let sums = |group: Group| {
        let named = |(name, sum): (String, forebay_telemetry::Sum)| NamedSum {
            name,
            accesses: sum.accesses,
            hits: sum.hits,
            reused: sum.reused,
            bytes: byte_counts(sum.bytes),
            last: sum.last,
        };
        GroupSums { by: group.as_str().to_owned(), sums: activity.sums(group).into_iter().map(named).collect() }
    };
    Ok(Activity { open: open.collect(), groups: Group::ALL.map(sums).to_vec() })
}

const fn byte_counts([hit, missed, coalesced, bypassed]: [u64; Outcome::ALL.len()]) -> ByteCounts {
    ByteCounts { hit, missed, coalesced, bypassed }
}

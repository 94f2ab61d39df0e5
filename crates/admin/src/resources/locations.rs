//! Files on the members of the cluster.

use super::Server;
use crate::{
    call::Call,
    model::{FileLocation, FileLocations},
    problem::{Problem, ProblemKind},
};
use forebay_cluster::Location;
use forebay_types::Lfn;

pub(crate) async fn get(server: &Server, call: &Call) -> Result<FileLocations, Problem> {
    let Some(locator) = &server.locator else {
        let text = "this server is not a member of a cluster: set cluster.managers and cluster.members";
        return Err(Problem::new(ProblemKind::NotSetUp, text));
    };
    let name = format!("/{}", call.variable.trim_start_matches('/'));
    let lfn = Lfn::parse(&name).map_err(Problem::invalid)?;
    let members = locator.locate(&lfn).await.into_iter().map(location).collect();
    Ok(FileLocations { name: lfn.as_str().to_owned(), members })
}

fn location(found: Location) -> FileLocation {
    let Location { member, is_own, state, weight, rank, presence } = found;
    FileLocation {
        member,
        is_this_server: is_own,
        state: state.as_str().to_owned(),
        weight,
        rank: rank.and_then(|rank| u32::try_from(rank.saturating_add(1)).ok()),
        file: presence.as_str().to_owned(),
    }
}

//! Other origins of the content of a file, at which clients have opened it.

use super::CachedFile;
use crate::namespace::routes::OriginTarget;
use forebay_origin::{Alternatives, AtPath, Origin, OriginPath};
use forebay_types::OriginId;
use std::sync::Arc;

pub(super) struct OtherOrigin {
    server: OriginId,
    path: OriginPath,
    origin: Arc<dyn Origin>,
}

/// Other origins that are remembered of a file.
const OTHERS_MAX: usize = 4;

impl CachedFile {
    /// Another client has been let in, which has the file at `target`. What is fetched from now on may be requested there, after a failure
    /// of the origin at which it is open, and with the client's credentials, if they last longer: never with those for another server.
    pub(crate) fn note_opened_at(&self, target: &OriginTarget) {
        if is_same(&target.server, self.server()) {
            self.target.path.delegation.renew(&target.path.delegation);
            return;
        }
        // A file that is not kept has no mark: opened again it might be another content.
        if self.stored.is_none() {
            return;
        }
        let mut others = self.other_origins.lock();
        if let Some(known) = others.iter().find(|other| is_same(&other.server, &target.server)) {
            known.path.delegation.renew(&target.path.delegation);
        } else if others.len() < OTHERS_MAX {
            let (server, path, origin) = (target.server.clone(), target.path.clone(), Arc::clone(&target.origin));
            others.push(OtherOrigin { server, path, origin });
            drop(others);
            // The next reader opens it such that reads continue there.
            self.close_at_origin();
        }
    }

    /// The origin at which the file was opened first, and behind it the others.
    pub(super) fn origins(&self) -> Arc<dyn Origin> {
        let first = Arc::clone(&self.target.origin);
        let others = self.other_origins.lock();
        if others.is_empty() {
            return first;
        }
        let validator = self.mark().map(|mark| mark.validator).unwrap_or_default();
        let at_path = |other: &OtherOrigin| -> Arc<dyn Origin> {
            Arc::new(AtPath::new(Arc::clone(&other.origin), other.path.clone(), self.size(), validator.clone()))
        };
        Arc::new(Alternatives::new([first].into_iter().chain(others.iter().map(at_path)).collect()))
    }
}

/// Whether two names are those of one server.
fn is_same(one: &OriginId, other: &OriginId) -> bool {
    // The common case needs no other spelling.
    one == other || one.canonical().as_ref().unwrap_or(one) == other.canonical().as_ref().unwrap_or(other)
}

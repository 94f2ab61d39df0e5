//! Draining.

use crate::{api::Shared, model::Drain};

/// Takes no new work from now on.
pub(crate) fn begin(shared: &Shared) -> Drain {
    shared.readiness.set_draining();
    told(shared)
}

pub(crate) fn undo(shared: &Shared) -> Drain {
    shared.readiness.set_ready();
    told(shared)
}

fn told(shared: &Shared) -> Drain {
    let metrics = shared.engine.metrics();
    Drain {
        is_draining: shared.readiness.is_draining(),
        open_handles: metrics.open_handles(),
        connections: metrics.connections(),
    }
}

//! Scrubbing.

use crate::{
    api::Shared,
    model::Scrub,
    problem::{Problem, ProblemKind},
};

/// Begins a scrub, unless one is under way.
pub(crate) fn start(shared: &Shared) -> Result<Scrub, Problem> {
    if !shared.engine.keeps_files() {
        let text = "this server keeps no files: it exports directories only, or is a manager, whose filler does";
        return Err(Problem::new(ProblemKind::NotSetUp, text));
    }
    shared.engine.start_scrub()?;
    Ok(get(shared))
}

/// How the scrub is.
pub(crate) fn get(shared: &Shared) -> Scrub {
    let state = shared.engine.scrub_state();
    Scrub {
        is_running: state.is_running,
        started: state.started,
        finished: state.finished,
        files: state.files,
        bytes: state.bytes,
        bad_blocks: state.bad_blocks,
        learned_blocks: state.learned_blocks,
    }
}

//! Ctrl-C and termination end a program in order, so that it stops what it has started.

use anyhow::{Context as _, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A flag that becomes true when the user or the system asks this process to end. From the first call on, neither
/// signal ends the process by itself.
///
/// # Errors
/// When signals cannot be watched.
pub fn flag() -> Result<&'static AtomicBool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let watch = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        INTERRUPTED.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("cannot watch for signals")?;
    Ok(&INTERRUPTED)
}

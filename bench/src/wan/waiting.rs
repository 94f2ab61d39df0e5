//! Waiting for what happens elsewhere.

use anyhow::{Result, bail};
use forebay_net::clock;
use std::time::Duration;

/// Time between two looks at something that is awaited.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Looks for something until it is there, at most for `limit`.
///
/// # Errors
/// When a look fails, or the time is over.
pub fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = clock::monotonic();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if clock::monotonic() - start > limit {
            bail!("waited {} s in vain", limit.as_secs());
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

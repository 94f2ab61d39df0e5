//! Pins: files that are kept from being purged.

use super::files::{key_of, not_cached};
use crate::{
    api::Shared,
    call::Call,
    model::{PIN_SECONDS_MAX, Pin, PinRequest},
    problem::Problem,
};

/// Pins a file, or changes how long it is pinned.
pub(crate) async fn put(shared: &Shared, call: &Call) -> Result<Pin, Problem> {
    let key = key_of(call.variable())?;
    let PinRequest { seconds } = call.body()?;
    if !(1..=PIN_SECONDS_MAX).contains(&seconds) {
        return Err(Problem::invalid(format_args!("`seconds`: write 1 to {PIN_SECONDS_MAX}")));
    }
    let until = forebay_net::clock::now_unix().saturating_add(i64::from(seconds));
    if shared.engine.pin(&key, until).await? {
        Ok(Pin { name: key.as_str().to_owned(), until })
    } else {
        Err(not_cached(&key))
    }
}

/// Ends the pin of a file, if it has one.
pub(crate) async fn delete(shared: &Shared, call: &Call) -> Result<(), Problem> {
    let key = key_of(call.variable())?;
    if shared.engine.unpin(&key).await? { Ok(()) } else { Err(not_cached(&key)) }
}

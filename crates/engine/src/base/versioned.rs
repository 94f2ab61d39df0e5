//! A value behind a lock that counts its changes, so that work on it can be done without the lock and be used only if nothing has
//! changed.

use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};

/// A value behind a lock.
pub(crate) struct Versioned<T>(Mutex<Counted<T>>);

/// Access to the value. Each mutable use counts as a change.
pub(crate) struct VersionedGuard<'a, T>(MutexGuard<'a, Counted<T>>);

struct Counted<T> {
    value: T,
    version: u64,
}

impl<T> Versioned<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(Counted { value, version: 0 }))
    }

    pub(crate) fn lock(&self) -> VersionedGuard<'_, T> {
        VersionedGuard(self.0.lock())
    }

    /// A number that no two states of the value share.
    pub(crate) fn version(&self) -> u64 {
        self.0.lock().version
    }
}

impl<T> Deref for VersionedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for VersionedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.version += 1;
        &mut self.0.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_not_a_change() {
        let value = Versioned::new(vec![1]);
        let before = value.version();
        assert_eq!(value.lock().len(), 1);
        assert_eq!(value.version(), before);
        value.lock().push(2);
        assert_ne!(value.version(), before);
    }
}

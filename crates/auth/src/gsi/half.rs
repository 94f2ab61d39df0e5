//! A server's half of the Diffie-Hellman exchange, as it is sent, and how long one is used.

use crate::UnixTime;
use crate::gsi::exchange::{Exchange, PeerValues};
use crate::gsi::raw_rsa;
use crate::x509::Credential;
use openssl::error::ErrorStack;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// How long a half is used for handshakes that begin, seconds. Who gets hold of the server's memory can read the messages of
/// handshakes of about so long before, if he has recorded them.
pub const HALF_S_MAX: i64 = 60;

/// Most values of clients that one half is combined with; another half is made long before.
const TAKEN_MAX: usize = 16_384;

/// A half with the values that are sent to the client.
pub(crate) struct Half {
    pub(crate) exchange: Exchange,
    pub(crate) values: Vec<u8>,
    /// Names of the clients' values that were combined with it.
    taken: Mutex<BTreeSet<[u8; 32]>>,
}

/// The half that handshakes of one server share. Making one takes two thirds of the computing of a login: most of it goes into the
/// signatures, since values of this length are signed in six pieces.
#[derive(Default)]
pub struct SharedHalf(Mutex<Option<Current>>);

struct Current {
    half: Arc<Half>,
    /// Who has signed it.
    credential: Arc<Credential>,
    made_at: UnixTime,
}

impl Half {
    /// A new one for a client that takes values in clear.
    pub(crate) fn unsigned() -> Result<Self, ErrorStack> {
        let exchange = Exchange::new()?;
        Ok(Self { values: exchange.values()?, exchange, taken: Mutex::default() })
    }

    /// A new one whose values `credential` signs.
    pub(crate) fn signed(credential: &Credential) -> Result<Self, ErrorStack> {
        let exchange = Exchange::new()?;
        let values = raw_rsa::sign(&*credential.key().rsa()?, &exchange.values()?)?;
        Ok(Self { values, exchange, taken: Mutex::default() })
    }

    /// Takes a client's value, once: false when it was taken before, or too many were. Else who has recorded a login could ask with
    /// the same value again and again how altered messages are received, and so learn what was in it.
    pub(crate) fn take(&self, value: &PeerValues) -> Result<bool, ErrorStack> {
        let name = self.exchange.name_of(value)?;
        let mut taken = self.taken.lock();
        Ok(taken.len() < TAKEN_MAX && taken.insert(name))
    }

    fn has_room(&self) -> bool {
        self.taken.lock().len() < TAKEN_MAX / 2
    }
}

impl SharedHalf {
    /// The half for a handshake that begins at `now`, signed by `credential`. Others wait while one is made.
    pub(crate) fn at(&self, now: UnixTime, credential: &Arc<Credential>) -> Result<Arc<Half>, ErrorStack> {
        let mut current = self.0.lock();
        let is_usable = |current: &&Current| {
            current.is_good_at(now) && current.half.has_room() && Arc::ptr_eq(&current.credential, credential)
        };
        if let Some(current) = current.as_ref().filter(is_usable) {
            return Ok(Arc::clone(&current.half));
        }
        let half = Arc::new(Half::signed(credential)?);
        let made = Current { half: Arc::clone(&half), credential: Arc::clone(credential), made_at: now };
        *current = Some(made);
        Ok(half)
    }

    /// Clears the half from memory if it is too old for handshakes that begin at `now`; those under way keep it. To be called every
    /// minute or so: without logins nothing else does.
    pub fn forget_old(&self, now: UnixTime) {
        let mut current = self.0.lock();
        current.take_if(|current| !current.is_good_at(now));
    }
}

impl Current {
    const fn is_good_at(&self, now: UnixTime) -> bool {
        let age = now.seconds_since(self.made_at);
        0 <= age && age < HALF_S_MAX
    }
}

impl fmt::Debug for SharedHalf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SharedHalf(not shown)")
    }
}

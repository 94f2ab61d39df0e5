//! Logins of browsers: random numbers in cookies, kept in memory.

use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use std::{
    collections::VecDeque,
    fmt::Write as _,
    time::{Duration, Instant},
};

/// Most logins at a time: the oldest one ends when there is one more.
pub const SESSIONS_MAX: usize = 64;

/// Time after which a login ends.
pub(super) const SESSION_TIME_MAX: Duration = Duration::from_secs(12 * 3600);

/// Name of the cookie.
const COOKIE: &str = "forebay";

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<VecDeque<Session>>);

#[derive(Debug)]
struct Session {
    number: String,
    /// The token that it was made with: a new token ends it.
    token: String,
    begun: Instant,
}

impl Sessions {
    /// Begins a session of a browser that knows `token`; the value of its `Set-Cookie` header. `None` without random numbers.
    pub(super) fn begin(&self, token: &str) -> Option<String> {
        let mut random = [0_u8; 32];
        let len = getrandom(&mut random, GetRandomFlags::empty()).ok()?;
        if len != random.len() {
            return None;
        }
        let mut number = String::new();
        for byte in random {
            write!(number, "{byte:02x}").ok()?;
        }
        let cookie =
            format!("{COOKIE}={number}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict", SESSION_TIME_MAX.as_secs());
        let session = Session { number, token: token.to_owned(), begun: forebay_net::clock::monotonic() };
        let mut sessions = self.0.lock();
        if sessions.len() == SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back(session);
        Some(cookie)
    }

    /// Whether a `Cookie` header has the number of a session that was begun with the current `token`.
    pub(super) fn admits(&self, header: Option<&str>, token: &str) -> bool {
        let Some(number) = header.and_then(number_of) else { return false };
        let now = forebay_net::clock::monotonic();
        let mut sessions = self.0.lock();
        sessions.retain(|session| {
            session.token == token && now.saturating_duration_since(session.begun) < SESSION_TIME_MAX
        });
        sessions.iter().any(|session| crate::access::is_same(session.number.as_bytes(), number.as_bytes()))
    }

    /// Ends a session; the value of the `Set-Cookie` header that removes its cookie.
    pub(super) fn end(&self, header: Option<&str>) -> String {
        if let Some(number) = header.and_then(number_of) {
            self.0.lock().retain(|session| session.number != number);
        }
        format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
    }
}

fn number_of(header: &str) -> Option<&str> {
    header.split(';').filter_map(|pair| pair.trim().split_once('=')).find(|(name, _)| *name == COOKIE).map(|(_, it)| it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cookie: &str) -> String {
        format!("other=1; {}", cookie.split(';').next().unwrap())
    }

    #[test]
    fn a_session_lasts_until_it_is_ended_or_the_token_changes() {
        let sessions = Sessions::default();
        let cookie = sessions.begin("token").unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        let mine = header(&cookie);
        assert!(sessions.admits(Some(&mine), "token"));
        for foreign in [None, Some(""), Some("forebay="), Some("forebay=00"), Some("forebayx")] {
            assert!(!sessions.admits(foreign, "token"), "{foreign:?}");
        }
        assert!(!sessions.admits(Some(&mine), "another"), "the token was replaced");
        let mine = header(&sessions.begin("token").unwrap());
        sessions.end(Some(&mine));
        assert!(!sessions.admits(Some(&mine), "token"));
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let sessions = Sessions::default();
        let first = header(&sessions.begin("token").unwrap());
        let others: Vec<_> = (1..SESSIONS_MAX).map(|_| header(&sessions.begin("token").unwrap())).collect();
        assert!(sessions.admits(Some(&first), "token"));
        sessions.begin("token").unwrap();
        assert!(!sessions.admits(Some(&first), "token"));
        assert!(sessions.admits(Some(&others[0]), "token"));
    }
}

//! The files that a connection keeps open between its requests.

use crate::facts::{CONTENT_TYPE, Facts};
use forebay_engine::Handle;
use forebay_front::HandlePlace;
use forebay_http_proto::{Fields, PartHeads};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The files that a connection keeps open between its requests: each range would otherwise be an open of its own. A client reads a file
/// through one open as long as it sends requests for it, so that its use is counted as one. Others than the defaults are for tests.
pub(crate) struct OpenFiles<F = Arc<File>, P = HandlePlace> {
    /// The one that was used last is at the end. Only requests of HTTP/2, which are answered at the same time, ever wait for the lock.
    files: Mutex<Vec<OpenFile<F, P>>>,
}

/// An open file, as one request has found it.
pub(crate) struct File {
    pub(crate) handle: Handle,
    pub(crate) facts: Facts,
    /// The fields of answers that describe it.
    pub(crate) fields: Fields,
    /// The same, of an answer with several parts.
    pub(crate) fields_of_parts: Fields,
}

struct OpenFile<F, P> {
    key: Key,
    file: F,
    /// The permission and the freshness that the open has found count until then.
    valid_until: Instant,
    /// The last request, or the last answer.
    used: Instant,
    _place: P,
}

/// The parts of a request that name a file and its client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    /// As it was sent, with tokens in its query; of S3 the path of the file.
    pub(crate) target: String,
    /// The value of `Authorization`; of S3 the id of the access key.
    pub(crate) authorization: Option<String>,
}

/// Most files that a connection keeps open.
const FILES_MAX: usize = 8;

/// How long an open counts: a change at the origin, or the end of a permission, shows in a further look.
pub(crate) const VALID_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a file stays open after its last use.
const UNUSED_TIME_MAX: Duration = Duration::from_secs(5);

impl<F: Clone, P> OpenFiles<F, P> {
    /// The open file of a request, if its open still counts.
    pub(crate) fn find(&self, target: &str, authorization: Option<&str>, now: Instant) -> Option<F> {
        let mut files = self.files.lock();
        let place = place_of(&files, target, authorization)?;
        if files.get(place)?.valid_until <= now {
            return None;
        }
        let later = files.get_mut(place..)?;
        later.rotate_left(1);
        let open = later.last_mut()?;
        open.used = now;
        Some(open.file.clone())
    }

    /// The open file of a request, whether its open still counts or not.
    pub(crate) fn known(&self, target: &str, authorization: Option<&str>) -> Option<F> {
        let files = self.files.lock();
        files.get(place_of(&files, target, authorization)?).map(|open| open.file.clone())
    }

    /// Keeps a file open that was opened at `now`. Its open counts for `time_max`, but not longer than usual. The file that was not used for
    /// the longest time is closed for it.
    pub(crate) fn keep(&self, key: Key, file: F, place: P, now: Instant, time_max: Duration) {
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX {
            files.remove(0);
        }
        let valid_until = now + time_max.min(VALID_TIME_MAX);
        files.push(OpenFile { key, file, valid_until, used: now, _place: place });
    }

    /// Has the open of a file count from `now` on, as if it had been opened then.
    pub(crate) fn renew(&self, target: &str, authorization: Option<&str>, now: Instant, time_max: Duration) {
        let mut files = self.files.lock();
        if let Some(place) = place_of(&files, target, authorization) {
            let mut open = files.remove(place);
            (open.valid_until, open.used) = (now + time_max.min(VALID_TIME_MAX), now);
            files.push(open);
        }
    }

    /// Closes the file of a request.
    pub(crate) fn close(&self, target: &str, authorization: Option<&str>) {
        let mut files = self.files.lock();
        if let Some(place) = place_of(&files, target, authorization) {
            files.remove(place);
        }
    }

    /// An answer was given at `now`: the file that was used last was in use until then.
    pub(crate) fn note_answer(&self, now: Instant) {
        if let Some(open) = self.files.lock().last_mut() {
            open.used = now;
        }
    }

    /// Closes all files, those too that may be asked for again.
    pub(crate) fn close_all(&self) {
        *self.files.lock() = Vec::new();
    }

    /// Closes the files that are not in use any more.
    pub(crate) fn close_unused(&self, now: Instant) {
        let mut files = self.files.lock();
        files.retain(|open| open.used + UNUSED_TIME_MAX > now);
        if files.is_empty() {
            *files = Vec::new();
        }
    }

    /// The time at which the next file is to be closed.
    pub(crate) fn next_close(&self) -> Option<Instant> {
        self.files.lock().iter().map(|open| open.used + UNUSED_TIME_MAX).min()
    }
}

fn place_of<F, P>(files: &[OpenFile<F, P>], target: &str, authorization: Option<&str>) -> Option<usize> {
    let is_it = |open: &OpenFile<F, P>| open.key.target == target && open.key.authorization.as_deref() == authorization;
    files.iter().rposition(is_it)
}

impl<F, P> Default for OpenFiles<F, P> {
    fn default() -> Self {
        Self { files: Mutex::default() }
    }
}

impl File {
    pub(crate) fn of(handle: Handle) -> Self {
        let facts = Facts::of(&handle.stat());
        let [fields, fields_of_parts] = [CONTENT_TYPE, PartHeads::CONTENT_TYPE].map(|kind| facts.fields(kind));
        Self { handle, facts, fields, fields_of_parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    type Files = OpenFiles<&'static str, Rc<()>>;

    fn key(target: &str) -> Key {
        Key { target: target.to_owned(), authorization: None }
    }

    #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
    fn now() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_file_in_use_stays_open_while_its_open_is_renewed() {
        let (files, place, start) = (Files::default(), Rc::new(()), now());
        let at = |seconds| start + Duration::from_secs(seconds);
        files.keep(key("/a"), "a", Rc::clone(&place), start, VALID_TIME_MAX);
        assert_eq!(files.find("/a", None, at(4)), Some("a"));
        assert_eq!(files.find("/a", None, at(5)), None, "it is looked at again");
        assert_eq!(files.known("/a", None), Some("a"));
        files.close_unused(at(8));
        assert_eq!(files.next_close(), Some(at(9)));
        files.renew("/a", None, at(8), Duration::from_secs(2));
        assert_eq!(files.find("/a", None, at(9)), Some("a"));
        assert_eq!(files.find("/a", None, at(10)), None, "the credentials have expired");
        files.note_answer(at(20));
        files.close_unused(at(24));
        assert_eq!(Rc::strong_count(&place), 2, "a long answer was a use");
        files.close_unused(at(25));
        assert_eq!((Rc::strong_count(&place), files.next_close()), (1, None));
    }

    #[test]
    fn files_are_those_of_their_credentials_and_the_oldest_makes_room() {
        let (files, start) = (Files::default(), now());
        let places: Vec<Rc<()>> = (0..FILES_MAX + 1).map(|_| Rc::default()).collect();
        let names = ["/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7"];
        for (place, name) in places.iter().zip(names) {
            files.keep(key(name), name, Rc::clone(place), start, VALID_TIME_MAX);
        }
        assert_eq!(files.find("/0", Some("Bearer x"), start), None);
        assert_eq!(files.find("/0", None, start), Some("/0"));
        files.keep(key("/8"), "/8", Rc::clone(&places[8]), start, VALID_TIME_MAX);
        let open: Vec<bool> = places.iter().map(|place| Rc::strong_count(place) == 2).collect();
        assert_eq!(open, [true, false, true, true, true, true, true, true, true]);
        files.close("/2", None);
        assert_eq!((files.known("/2", None), files.known("/3", None)), (None, Some("/3")));
    }
}

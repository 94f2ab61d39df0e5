//! The state that all reads of a file share.

use crate::{
    answer::facts::validator_in,
    exchange::{Answer, Client, Failure},
    pool::Connection,
    request::Question,
    target::Target,
};
use forebay_origin::{FileIdentity, OriginPath};
use forebay_types::{ByteRange, Validator, ValidatorMatch};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// An answer that has opened a file, and has these bytes of it. No byte of its body was taken yet.
pub(crate) struct Begun {
    pub(crate) answer: Answer,
    pub(crate) range: ByteRange,
    /// It occupies a connection until its bytes were read.
    pub(crate) turn: OwnedSemaphorePermit,
}

/// Parts that reads under way keep.
pub(super) struct Shared {
    pub(super) client: Arc<Client>,
    pub(super) turns: Arc<Semaphore>,
    pub(super) path: OriginPath,
    /// As of the open; reads go to the same server while it answers.
    pub(super) identity: FileIdentity,
    /// The position of that server in the list of the client.
    pub(super) opened_at: usize,
    /// The URL that answered last, after redirects.
    pub(super) target: Mutex<Option<KnownTarget>>,
}

/// A URL behind redirects.
#[derive(Clone)]
pub(super) struct KnownTarget {
    pub(super) target: Target,
    /// The position of the server that has redirected to it.
    pub(super) server: usize,
}

impl Shared {
    /// Asks a server for `ranges`: at the URL that gave bytes before, else at its own.
    pub(super) async fn ask(
        &self,
        server: usize,
        kept: Option<Connection>,
        ranges: Vec<ByteRange>,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        // Entity tags are those of one server.
        let etag = if self.is_home(server) { self.identity.validator.etag().cloned() } else { None };
        let question = Question::Get { ranges, etag };
        let (target, is_known) = self.target(server);
        let asked = self.client.ask_over(kept, &target, &self.path, &question, deadline).await;
        match asked {
            // A URL behind a redirect may have ended: the door gives another one.
            Ok(answer) if is_known && !answer.status.is_success() => {
                *self.target.lock() = None;
                answer.body.finish().await;
                self.client.ask(&self.door(server), &self.path, &question, deadline).await
            }
            Err(failure) => {
                *self.target.lock() = None;
                Err(failure)
            }
            Ok(answer) => Ok(answer),
        }
    }

    /// The URL to ask, and whether it is one behind a redirect.
    pub(super) fn target(&self, server: usize) -> (Target, bool) {
        let door = self.door(server);
        let known = self.target.lock().clone().filter(|known| known.server == server);
        match known {
            Some(known) if known.target != door => (known.target, true),
            _ => (door, false),
        }
    }

    pub(super) fn note_target(&self, server: usize, answer: &Answer) {
        *self.target.lock() = Some(KnownTarget { target: answer.target.clone(), server });
    }

    /// The URL of the file at a server.
    pub(super) fn door(&self, server: usize) -> Target {
        Target::new(self.client.server(server), &self.path)
    }

    pub(super) const fn is_home(&self, server: usize) -> bool {
        server == self.opened_at
    }

    /// Whether an answer is about another content than the one that was opened.
    pub(super) fn is_other_version(&self, server: usize, answer: &Answer) -> bool {
        let is_of = if self.is_home(server) { Validator::compare } else { Validator::compare_replica };
        is_of(&validator_in(&answer.headers), &self.identity.validator) == ValidatorMatch::Different
    }
}

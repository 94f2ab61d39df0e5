//! Commands for the cache, for clients with the right `admin`.

use crate::{
    base::status::Failure,
    requests::{context::ConnectionContext, names::Permitted},
};
use forebay_auth::Right;
use forebay_cache::{CacheKey, name_for_rules};
use forebay_engine::Evicted;
use forebay_front::Backend;
use forebay_proto::{ErrorCode, ReplyTo, StreamId};

impl ConnectionContext {
    /// Removes a file from the cache: `evict PATH`, and `fevict PATH` also when it is open or pinned.
    pub(crate) fn command_cache(&mut self, stream_id: StreamId, command: &[u8], path: &[u8]) {
        let is_forced = match command {
            b"evict" => false,
            b"fevict" => true,
            _ => {
                let text = "there is no such command for the cache: evict PATH, fevict PATH";
                return self.fail(stream_id, &Failure::client(ErrorCode::ARG_INVALID, text));
            }
        };
        let key = match self.key_to_administer(path) {
            Ok(key) => key,
            Err(failure) => return self.fail(stream_id, &failure),
        };
        let Backend::Cache(engine) = self.state.front.backend.clone() else {
            // A manager keeps no files.
            return self.conclude(stream_id, removed(Evicted::NotCached, &key), |reply, (), out| reply.ok(out));
        };
        self.start_answer(stream_id, |mut answer| async move {
            let evicted = answer.wait_for(engine.evict(&key, is_forced)).await.map_err(Failure::from);
            let done = evicted.and_then(|evicted| removed(evicted, &key));
            answer.conclude(done, |reply, (), out| ReplyTo::ok(reply, out)).await;
        });
    }

    /// The entry of `path`, if a rule lets the client administer it. Without rules no client may.
    fn key_to_administer(&self, path: &[u8]) -> Result<CacheKey, Failure> {
        // Without rules every client could empty the cache.
        if !self.state.front.gate.has_rules() {
            let text = "this server takes commands for its cache from clients whom a grant gives the right \"admin\"";
            return Err(Failure::client(ErrorCode::UNSUPPORTED, text));
        }
        let Permitted { request, .. } = self.permitted(path, Right::Admin)?;
        // The cache key has the same normalized form as the name in rules.
        let key = name_for_rules(&request.lfn).and_then(|name| CacheKey::from_text(name.as_str()));
        key.ok_or_else(|| Failure::client(ErrorCode::NOT_FOUND, "no file of this name can be in the cache"))
    }
}

fn removed(evicted: Evicted, key: &CacheKey) -> Result<(), Failure> {
    let (code, what) = match evicted {
        Evicted::Removed { .. } => return Ok(()),
        Evicted::NotCached => (ErrorCode::NOT_FOUND, "is not in the cache"),
        Evicted::Open => (ErrorCode::FILE_LOCKED, "is open: fevict removes it all the same"),
        Evicted::Pinned => (ErrorCode::FILE_LOCKED, "is pinned: fevict removes it all the same"),
    };
    Err(Failure::client(code, format!("{key} {what}")))
}

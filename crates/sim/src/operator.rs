//! A simulated administrator: evicts, pins, purges, completes and scrubs while clients read.

use crate::{
    dice::Dice,
    scenario::some_file,
    world::{World, path_of},
};
use forebay_cache::CacheKey;
use forebay_engine::{Caller, Engine, Error, OpenRequest};
use forebay_types::Lfn;
use std::time::Duration;
use tokio::time::timeout;

/// An administrator of one engine.
pub(crate) struct Operator {
    pub(crate) world: World,
    pub(crate) dice: Dice,
    pub(crate) engine: Engine,
}

/// Number under which the administrator's doings go into the digest.
const NUMBER: u64 = 1000;

/// Time after which a request counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(3600);

/// Time after which a completion is given up: it waits as long as its origin fails.
const COMPLETION_MAX: Duration = Duration::from_secs(20);

impl Operator {
    /// Does something now and then until the world is over.
    pub(crate) async fn run(mut self) {
        while !self.world.state().is_over {
            let pause = self.dice.millis(0..=4_000);
            tokio::time::sleep(pause).await;
            let chosen = self.dice.below(7);
            match timeout(STUCK_AFTER, self.act(chosen)).await {
                Ok(done) => self.world.note(NUMBER, chosen << 1 | u64::from(done.is_ok())),
                Err(_) => {
                    self.world.find(format!("the administrator's request {chosen} has had no answer for an hour"))
                }
            }
        }
    }

    async fn act(&mut self, chosen: u64) -> Result<(), Error> {
        let path = path_of(some_file(&mut self.dice));
        let key = CacheKey::fixed(&Lfn::parse(&path)?).expect("a good path");
        let engine = self.engine.clone();
        match chosen {
            0 => engine.evict(&key, false).await.map(drop),
            1 => engine.evict(&key, true).await.map(drop),
            2 => {
                let until = forebay_net::clock::now_unix() + i64::try_from(self.dice.below(30)).unwrap_or(0);
                engine.pin(&key, until).await.map(drop)
            }
            3 => engine.unpin(&key).await.map(drop),
            4 => {
                let fraction = *self.dice.pick(&[0.0, 0.3, 0.9]);
                engine.purge_to(fraction, false).await.map(drop)
            }
            5 => engine.start_scrub(),
            _ => {
                let request = OpenRequest::of(Lfn::parse(&path)?);
                let caller = Caller::operator("");
                let completed = timeout(COMPLETION_MAX, engine.complete(&request, &caller, &|_, _| ()));
                completed.await.unwrap_or(Ok(()))
            }
        }
    }
}

//! Where the simulated engine keeps its index: in memory that a crash damages, and that fails at times.

use crate::{dice::Dice, world::World};
use forebay_index::{Found, Index, IndexError, IndexOptions, IndexPlace, StorageBackend};
use parking_lot::{Mutex, MutexGuard};
use std::{io, sync::Arc};

/// An index's storage, which outlives the engines that use it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SimIndex {
    world: World,
    memory: Arc<Mutex<Memory>>,
    dice: Arc<Mutex<Dice>>,
}

/// The stored bytes, and those that would survive a crash.
#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    written: Vec<(usize, Vec<u8>)>,
}

impl SimIndex {
    pub(crate) fn new(world: World, dice: Dice) -> Self {
        Self { world, memory: Arc::default(), dice: Arc::new(Mutex::new(dice)) }
    }

    /// The machine has crashed: of what was not synced some survives, one write perhaps in part. At times the whole is lost.
    pub(crate) fn crash(&self, dice: &mut Dice) {
        let mut memory = self.memory();
        if dice.one_in(10) {
            *memory = Memory::default();
            return;
        }
        let Memory { synced, written, .. } = std::mem::take(&mut *memory);
        let mut bytes = synced;
        let survives_one_in = dice.within(1..=3);
        for (at, data) in written {
            let torn_at = if dice.one_in(8) { data.len() / 2 } else { data.len() };
            if dice.one_in(survives_one_in) {
                overwrite(&mut bytes, at, data.get(..torn_at).unwrap_or_default());
            }
        }
        memory.synced.clone_from(&bytes);
        memory.bytes = bytes;
    }

    /// Everything that was written is there to stay: the machine was shut down in order.
    pub(crate) fn settle(&self) {
        self.memory().settle();
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    fn fail_at_times(&self) -> io::Result<()> {
        let (one_in, has_rot) = {
            let state = self.world.state();
            (state.disk_fails_one_in, !state.rotten.is_empty())
        };
        if has_rot {
            // Both at once is beyond the guarantees: without the index nothing shows that a block has rotted.
            return Ok(());
        }
        let fails = one_in > 0 && self.dice.lock().one_in(one_in * 10);
        if fails { Err(io::Error::other("simulated")) } else { Ok(()) }
    }
}

impl Memory {
    fn settle(&mut self) {
        self.synced.clone_from(&self.bytes);
        self.written.clear();
    }
}

impl IndexPlace for SimIndex {
    fn open(&self) -> Result<(Index, Found), IndexError> {
        Index::with_backend(self.clone(), IndexOptions { cache_bytes: 1 << 16 })
    }

    fn discard(&self) -> Result<(), IndexError> {
        *self.memory() = Memory::default();
        Ok(())
    }
}

impl StorageBackend for SimIndex {
    fn len(&self) -> io::Result<u64> {
        Ok(self.memory().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.fail_at_times()?;
        let memory = self.memory();
        let bytes = usize::try_from(offset).ok().and_then(|at| memory.bytes.get(at..)?.get(..out.len()));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut memory = self.memory();
        let len = usize::try_from(len).map_err(io::Error::other)?;
        memory.bytes.resize(len, 0);
        memory.synced.resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fail_at_times()?;
        self.memory().settle();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.fail_at_times()?;
        let mut memory = self.memory();
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        overwrite(&mut memory.bytes, at, data);
        memory.written.push((at, data.to_vec()));
        Ok(())
    }
}

fn overwrite(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(at..end) {
        place.copy_from_slice(data);
    }
}

impl std::fmt::Debug for SimIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimIndex").finish_non_exhaustive()
    }
}

//! The open files of one session.

use forebay_engine::Handle;
use forebay_front::HandlePlace;
use forebay_proto::FileHandle;

/// The open files of one session, by the four bytes of their handles.
///
/// The bytes are the index of a slot and its generation: slots are reused, and a late request for a closed file must not find
/// the next one.
#[derive(Debug)]
pub(crate) struct HandleTable<T = Handle, P = HandlePlaces> {
    slots: Vec<Slot<T, P>>,
    free: Vec<u16>,
    handles_max: usize,
}

#[derive(Debug)]
struct Slot<T, P> {
    generation: u16,
    open: Option<(T, P)>,
}

/// The places of an open file in the shares of its client.
#[derive(Debug)]
pub(crate) struct HandlePlaces {
    pub(crate) _of_address: HandlePlace,
    pub(crate) _of_identity: Option<HandlePlace>,
}

impl<T, P> HandleTable<T, P> {
    pub(crate) const fn new(handles_max: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), handles_max }
    }

    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether `pending` more files still fit.
    pub(crate) const fn has_room_for(&self, pending: usize) -> bool {
        self.len() + pending <= self.handles_max
    }

    /// Adds an open file and returns its handle; `None` when the table is full. `places` are kept as long.
    pub(crate) fn insert(&mut self, handle: T, places: P) -> Option<FileHandle> {
        if !self.has_room_for(1) {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u16::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot { generation: 0, open: None });
                index
            }
        };
        let slot = self.slots.get_mut(usize::from(index))?;
        slot.open = Some((handle, places));
        Some(name(index, slot.generation))
    }

    pub(crate) fn get(&self, name: FileHandle) -> Option<&T> {
        let (index, generation) = parts(name);
        let slot = self.slots.get(index).filter(|slot| slot.generation == generation)?;
        slot.open.as_ref().map(|(handle, _)| handle)
    }

    /// Removes an open file. Requests in progress keep it open until they end.
    pub(crate) fn remove(&mut self, name: FileHandle) -> Option<T> {
        let (index, generation) = parts(name);
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation == generation)?;
        let (handle, _) = slot.open.take()?;
        // A client would need 65 536 opens of one slot before an old handle is valid again.
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(u16::try_from(index).ok()?);
        Some(handle)
    }
}

fn name(index: u16, generation: u16) -> FileHandle {
    let ([a, b], [c, d]) = (index.to_be_bytes(), generation.to_be_bytes());
    FileHandle([a, b, c, d])
}

fn parts(name: FileHandle) -> (usize, u16) {
    let [a, b, c, d] = name.0;
    (usize::from(u16::from_be_bytes([a, b])), u16::from_be_bytes([c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_request_for_a_closed_file_finds_nothing_in_its_reused_slot() {
        let mut table = HandleTable::new(8);
        let old = table.insert('a', ()).unwrap();
        assert_eq!(old, FileHandle([0; 4]));
        for invented in [[0, 0, 0, 1], [0, 1, 0, 0], [0xff; 4]] {
            assert_eq!(table.get(FileHandle(invented)), None);
        }
        assert_eq!(table.remove(old), Some('a'));
        let new = table.insert('b', ()).unwrap();
        assert_eq!((table.get(old), table.get(new)), (None, Some(&'b')));
        assert_eq!(table.remove(old), None);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn handles_are_limited_by_the_options_and_by_the_index() {
        let mut table = HandleTable::new(2);
        let first = table.insert('a', ()).unwrap();
        table.insert('b', ()).unwrap();
        assert!(!table.has_room_for(1));
        assert_eq!(table.insert('c', ()), None);
        table.remove(first).unwrap();
        assert!(table.insert('c', ()).is_some());

        let mut table = HandleTable::new(usize::MAX);
        assert!((0..=u16::MAX).all(|_| table.insert((), ()).is_some()));
        assert_eq!(table.insert((), ()), None);
    }
}

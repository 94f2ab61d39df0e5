//! Creating the files of an entry.

use super::{LocalDisk, remove};
use crate::{
    StoreError,
    cinfo_file::Contents,
    data_file::LocalFile,
    prepare::is_at_its_path,
    tree::{Place, Spot},
    xattrs::Attributes,
};
use forebay_cache::CacheKey;
use rustix::fs::OFlags;

/// Tries to create an entry in a directory that removals take away again and again.
const CREATE_ATTEMPTS_MAX: u32 = 64;

/// The result of creating an entry's files where nothing should be.
enum Attempt {
    Created(LocalFile),
    /// There is a record, or a link to one.
    HasRecord,
    /// There is data, next to the record that was written just now.
    HasData,
}

impl LocalDisk {
    /// Creates the files of an entry; those of one that is there are replaced.
    pub(super) fn create_files(
        &self,
        key: &CacheKey,
        place: &Place,
        contents: Contents<'_>,
    ) -> Result<LocalFile, StoreError> {
        if self.is_part {
            return self.move_in_place(key, place, contents);
        }
        if !self.unsynced_removals.has(key)
            && let Attempt::Created(data) = self.create_where_nothing_is(place, contents)?
        {
            return Ok(data);
        }
        self.replace_files(key, place, contents)
    }

    /// As [`Self::create_files`], but leaves an entry alone that has a record; `None` then.
    pub(super) fn create_files_if_free(
        &self,
        key: &CacheKey,
        place: &Place,
        contents: Contents<'_>,
    ) -> Result<Option<LocalFile>, StoreError> {
        if self.is_part {
            let is_taken = place.open_cinfo(OFlags::RDONLY)?.is_some();
            return if is_taken { Ok(None) } else { self.move_in_place(key, place, contents).map(Some) };
        }
        if !self.unsynced_removals.has(key) {
            match self.create_where_nothing_is(place, contents)? {
                Attempt::Created(data) => return Ok(Some(data)),
                Attempt::HasRecord => return Ok(None),
                Attempt::HasData => {}
            }
        }
        self.replace_files(key, place, contents).map(Some)
    }

    /// Creates the files of an entry in the place of what there is; when it fails nothing is left.
    fn replace_files(&self, key: &CacheKey, place: &Place, contents: Contents<'_>) -> Result<LocalFile, StoreError> {
        self.put_in_place(key, place, contents).inspect_err(|_| clear(place))
    }

    fn put_in_place(&self, key: &CacheKey, place: &Place, contents: Contents<'_>) -> Result<LocalFile, StoreError> {
        let cinfo_spot = place.cinfo()?;
        let data_spot = place.data()?;
        let cinfo_attributes = self.space_attributes(&cinfo_spot)?;
        let data_attributes = self.space_attributes(&data_spot)?;
        self.remove_record(key, &cinfo_spot)?;
        data_spot.remove_file()?;
        let data = data_spot.create()?;
        data_attributes.give_to(&data).map_err(StoreError::io("setting the attributes of", &data_spot.path))?;
        let written = self.cinfo_writer.fill(&cinfo_spot.create()?, &cinfo_attributes, contents);
        written.map_err(StoreError::io("writing", &cinfo_spot.path))?;
        LocalFile::created(self.volume, data).map_err(StoreError::io("examining", &data_spot.path))
    }

    /// Creates the files of an entry of a part: both are complete before they get their names.
    fn move_in_place(&self, key: &CacheKey, place: &Place, contents: Contents<'_>) -> Result<LocalFile, StoreError> {
        let (cinfo_spot, data_spot) = (place.cinfo_here(), place.data_here());
        self.remove_record(key, &cinfo_spot)?;
        let data = self.cinfo_writer.move_new_file(&data_spot);
        let data = data.map_err(StoreError::io("creating", &data_spot.path))?;
        let record = self.cinfo_writer.draft(place, contents, false)?;
        record.name(&cinfo_spot).map_err(StoreError::io("creating", &cinfo_spot.path))?;
        LocalFile::created(self.volume, data).map_err(StoreError::io("examining", &data_spot.path))
    }

    /// Removes the record at `spot`: an old one is durably gone before new data takes its name.
    fn remove_record(&self, key: &CacheKey, spot: &Spot) -> Result<(), StoreError> {
        let is_removed = spot.remove_file()?;
        if !is_removed && !self.unsynced_removals.has(key) {
            return Ok(());
        }
        if let Err(error) = spot.sync_directory() {
            // The next creation finds no record, and has to sync the directory all the same.
            if is_removed && let Err(error) = self.unsynced_removals.note(&self.tree, key.split().0, &[(0, key)]) {
                tracing::warn!(%key, %error, "a removal that is not durable is not remembered");
            }
            return Err(error);
        }
        self.unsynced_removals.forget(key);
        Ok(())
    }

    /// Creates the files of an entry as long as nothing has one of their names. The record comes first, so that none of another
    /// entry is ever next to the new data.
    fn create_where_nothing_is(&self, place: &Place, contents: Contents<'_>) -> Result<Attempt, StoreError> {
        let cinfo_spot = place.cinfo_here();
        let data_spot = place.data_here();
        let Some(record) = cinfo_spot.create_if_free()? else { return Ok(Attempt::HasRecord) };
        let finish = || {
            let written = self.cinfo_writer.fill(&record, &Attributes::default(), contents);
            written.map_err(StoreError::io("writing", &cinfo_spot.path))?;
            let Some(data) = data_spot.create_if_free()? else { return Ok(Attempt::HasData) };
            let data = LocalFile::created(self.volume, data).map_err(StoreError::io("examining", &data_spot.path))?;
            Ok(Attempt::Created(data))
        };
        finish().inspect_err(|_| clear(place))
    }

    /// Runs `create` for the place of an entry, whose directory is created if need be.
    pub(super) fn create_in_place<T>(
        &self,
        key: &CacheKey,
        create: impl Fn(&Place) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _guard = self.lock(key);
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.tree.create_place(key).and_then(|place| create(&place)) {
                // A removal of the directory's last other entry took it away, or the store itself was removed.
                Err(error) if error.is_not_found() => {
                    if !is_at_its_path(&self.tree)? {
                        return Err(StoreError::Replaced { path: self.tree.path.clone() });
                    }
                    if attempts >= CREATE_ATTEMPTS_MAX {
                        return Err(error);
                    }
                }
                created => return created,
            }
        }
    }

    /// Attributes that a file in a space must keep when it is replaced.
    fn space_attributes(&self, spot: &Spot) -> Result<Attributes, StoreError> {
        if !self.keeps_xattrs || !spot.is_linked() {
            return Ok(Attributes::default());
        }
        let Some((file, _)) = spot.open(OFlags::RDONLY)? else { return Ok(Attributes::default()) };
        Attributes::of_space(&file).map_err(StoreError::io("reading the attributes of", &spot.path))
    }
}

/// Removes what is left of an entry that could not be created.
fn clear(place: &Place) {
    if let Err(error) = remove(place) {
        tracing::debug!(?place, %error, "an entry that could not be created is not removed either");
    }
}

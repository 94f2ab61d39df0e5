//! Clients of a file come and go.

use super::CachedFile;
use crate::entries::stored_entry::Record;
use forebay_telemetry::FileUse;
use std::{sync::atomic::Ordering, time::Duration};

impl CachedFile {
    /// One more client has the file open. Called under the table's lock.
    pub(crate) fn attach(&self) {
        // The record is locked before the count changes, so that a close in parallel does not end the new access period.
        let mut record = self.stored.as_ref().map(|stored| stored.record.lock());
        let is_first = self.users.fetch_add(1, Ordering::AcqRel) == 0;
        let Some(record) = &mut record else { return };
        if is_first {
            self.account.forget_servers();
            let merged_for = self.context.options.uses_interval;
            record.begin_period(self.account.bytes(), forebay_net::clock::now_unix(), merged_for);
        }
        record.note_attached();
    }

    /// Keeps an open file open once more, without counting a further open.
    pub(crate) fn attach_again(&self) {
        // Locked for the same reason as in `attach`, although nothing is changed in the record.
        let _record = self.stored.as_ref().map(|stored| stored.record.lock());
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes the organization of a client that has the file open. The first one counts, and is noted with the next record.
    pub(crate) fn note_owner(&self, organization: Option<&str>) {
        if let Some(organization) = organization {
            self.owner.get_or_init(|| organization.to_owned());
        }
    }

    /// The organization of the first client that belongs to one.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.owner.get().map(String::as_str)
    }

    /// A client has closed the file after `open_for`; returns how many had it open until now, and its use by all of them.
    pub(crate) fn detach(&self, open_for: Duration) -> (u64, FileUse) {
        let mut record = self.stored.as_ref().map(|stored| stored.record.lock());
        let users_before = self.users.fetch_sub(1, Ordering::AcqRel);
        // The bytes fetched ahead and not read by now were fetched in vain.
        if users_before == 1 {
            self.account.add_wasted(self.read_ahead.note_all_left());
        }
        let Some(record) = &mut record else { return (users_before, self.usage(None)) };
        self.refresh_access(record);
        if let Some(access) = record.cinfo.accesses.last_mut() {
            let seconds = i32::try_from(open_for.as_secs()).unwrap_or(i32::MAX);
            access.duration_seconds = access.duration_seconds.saturating_add(seconds);
            // The last close ends the access period; with other clients it continues.
            access.detached = (users_before == 1).then(forebay_net::clock::now_unix);
        }
        record.note_used();
        (users_before, self.usage(Some(record)))
    }

    /// The use of the file in the current access period.
    fn usage(&self, record: Option<&Record>) -> FileUse {
        let (geometry, bytes) = (self.geometry, self.account.bytes());
        FileUse {
            block_size: geometry.block_size(),
            blocks: geometry.block_count(),
            blocks_done: self.stored.as_ref().map_or(0, |stored| stored.map.written_count()),
            accesses: record.map_or(0, |record| record.cinfo.access_count),
            attached: record.map_or(0, |record| record.period_begin),
            last_use: record.and_then(|record| record.last_use),
            bytes: record.map_or(bytes, |record| bytes.since(&record.period_start)),
            servers: self.account.servers(),
        }
    }

    /// Brings the newest access record up to the account.
    pub(crate) fn refresh_access(&self, record: &mut Record) {
        record.note_account(self.account.bytes());
    }
}

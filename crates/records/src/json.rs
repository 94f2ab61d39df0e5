//! The text of a record: one JSON object without a line break.

use crate::{
    CacheUse, Reads, Record,
    record::{Client, REASON_LEN_MAX, Times},
};
use std::io::Write as _;

impl Record<'_> {
    /// Appends the record to `out`, without a line break at its end.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let mut object = Object { out, is_empty: true };
        object.text("record_id", self.id);
        object.time("@timestamp", self.times.end);
        object.text("event", self.event.as_str());
        self.times.write(&mut object);
        let server = self.server;
        object.text("server_site", &server.site);
        object.text("server_host", &server.host);
        object.text("instance", &server.instance);
        object.text("version", &server.version);
        self.client.write(&mut object);
        object.text("file_lfn", self.lfn);
        object.any_number("file_size", self.size);
        object.text("dataset", &self.names.dataset);
        object.text("tier", &self.names.tier);
        object.any_text("primary", self.names.primary.as_deref());
        object.any_text("campaign", self.names.campaign.as_deref());
        object.any_text("origin", self.origin);
        object.any_text("target", self.target);
        object.text("status", self.status);
        object.any_text("reason", self.reason.map(shortened));
        object.any_text("decision", self.decision.map(super::record::Decision::as_str));
        if let Some(reads) = &self.reads {
            reads.write(self.times, &mut object);
        }
        if let Some(used) = &self.cache {
            used.write(&mut object);
        }
        out.push(b'}');
    }
}

impl Times {
    fn write(self, object: &mut Object<'_>) {
        object.time("start_time", self.start);
        object.time("end_time", self.end);
        object.float("operation_time", self.seconds());
    }

    fn seconds(self) -> f64 {
        self.end.saturating_sub(self.start).max(0) as f64 / 1000.0
    }
}

impl Client<'_> {
    fn write(&self, object: &mut Object<'_>) {
        object.text("user", self.user);
        object.any_text("vo", self.organization);
        object.text("client_host", self.host);
        object.text("client_domain", self.domain);
        if let Some(address) = self.address {
            object.text("client_ip", &address.to_string());
            object.flag("ipv6", address.is_ipv6());
        }
        object.text("protocol", self.protocol);
        object.text("appinfo", self.program);
    }
}

impl Reads {
    fn write(&self, times: Times, object: &mut Object<'_>) {
        let bytes = self.bytes();
        object.number("read_bytes", bytes);
        object.number("read_single_bytes", self.single_bytes);
        object.number("read_vector_bytes", self.vector_bytes);
        object.number("read_operations", self.operations.saturating_add(self.vector_operations));
        object.number("read_single_operations", self.operations);
        object.number("read_vector_operations", self.vector_operations);
        object.number("read_vector_count", self.vector_elements);
        object.number("bytes_hit_cache", self.hit);
        object.number("bytes_miss_cache", self.missed);
        object.number("bytes_coalesced", self.coalesced);
        object.number("bytes_bypass_cache", self.bypassed);
        let seconds = times.seconds();
        if seconds > 0.0 {
            object.float("throughput", bytes as f64 / seconds);
        }
    }
}

impl CacheUse {
    fn write(&self, object: &mut Object<'_>) {
        object.number("bytes_read_by_remote", self.fetched);
        object.number("bytes_to_disk", self.written);
        object.number("bytes_by_prefetch", self.prefetched);
        object.number("bytes_wasted", self.wasted);
        object.number("access_count", self.accesses);
        object.flag("first_access", self.accesses == 1);
        object.any_number("since_last_use_s", self.since_last_use_s);
        object.number("block_size", self.block_size);
        object.number("blocks", self.blocks);
        object.number("blocks_done", self.blocks_done);
        object.texts("remotes", &self.remotes);
    }
}

/// The beginning of a text that may be long.
fn shortened(text: &str) -> &str {
    let end = (0..=REASON_LEN_MAX.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// An object that is written field by field. Writing to a vector cannot fail.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl Object<'_> {
    fn name(&mut self, name: &str) {
        self.out.push(if self.is_empty { b'{' } else { b',' });
        self.is_empty = false;
        let _ = write!(self.out, "\"{name}\":");
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        // Larger ones are not numbers to the receivers, which have 64 bits with a sign.
        let _ = write!(self.out, "{}", value.min(i64::MAX.cast_unsigned()));
    }

    fn any_number(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    fn time(&mut self, name: &str, milliseconds: i64) {
        self.name(name);
        let _ = write!(self.out, "{milliseconds}");
    }

    fn float(&mut self, name: &str, value: f64) {
        self.name(name);
        let _ = write!(self.out, "{value:.3}");
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.name(name);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.string(value);
    }

    fn any_text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn texts(&mut self, name: &str, values: &[String]) {
        self.name(name);
        self.out.push(b'[');
        for (position, value) in values.iter().enumerate() {
            if position > 0 {
                self.out.push(b',');
            }
            self.string(value);
        }
        self.out.push(b']');
    }

    fn string(&mut self, value: &str) {
        let _ = serde_json::to_writer(&mut *self.out, value);
    }
}

//! `RNTuple` 1.x: anchor, header, footer and page lists. Integers are little-endian, but for the anchor.

use crate::{
    Refusal, Tree, TreeKind,
    cursor::Cursor,
    inflate::inflate,
    limits::{CLUSTER_GROUPS_MAX, COLUMNS_MAX, DEPTH_MAX},
    objects::Version,
    table::TableBuilder,
};

/// The epoch of version 1.x. Other epochs have other layouts.
const EPOCH: u16 = 1;

/// The place of an envelope, and its inflated length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Link {
    pub(crate) position: u64,
    pub(crate) stored_len: u64,
    inflated_len: u64,
}

/// The links of an anchor, which is the inflated object of a key.
pub(crate) fn anchor(object: &[u8]) -> Result<[Link; 2], Refusal> {
    let mut from = Cursor::new(object);
    Version::read(&mut from)?;
    if from.u16()? != EPOCH {
        return Err(Refusal::UnknownVersion("the RNTuple"));
    }
    // Versions within the epoch can be read by all of its readers, unless a feature flag says otherwise.
    from.skip(2 * 3)?;
    let mut link = || Ok(Link { position: from.u64()?, stored_len: from.u64()?, inflated_len: from.u64()? });
    Ok([link()?, link()?])
}

/// Kinds of envelopes, in the low bits of their first word.
const HEADER: u16 = 1;
const FOOTER: u16 = 2;
const PAGE_LIST: u16 = 3;

/// Inflates an envelope and calls `read` on its payload.
fn envelope<T>(
    link: Link,
    stored: &[u8],
    kind: u16,
    read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let bytes = inflate(stored, link.inflated_len)?;
    let mut from = Cursor::new(&bytes);
    if from.u64_le()? & 0xffff != u64::from(kind) {
        return Err(Refusal::Damaged("an envelope of another kind"));
    }
    read(&mut from)
}

/// A frame: its end, and the number of its items if it is a list.
struct Frame {
    end: usize,
    items: u32,
}

impl Frame {
    fn enter(from: &mut Cursor<'_>, is_list: bool) -> Result<Self, Refusal> {
        let begin = from.position();
        let size = from.i64_le()?;
        if is_list != (size < 0) {
            return Err(Refusal::Damaged("a frame of the other kind"));
        }
        let end = usize::try_from(size.unsigned_abs()).ok().and_then(|len| begin.checked_add(len));
        let end = end.ok_or(Refusal::Damaged("a frame is too long"))?;
        Ok(Self { end, items: if is_list { from.u32_le()? } else { 1 } })
    }

    /// Calls `read` at each item of a list, and continues after the list.
    fn each(
        from: &mut Cursor<'_>,
        mut read: impl FnMut(&mut Cursor<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let frame = Self::enter(from, true)?;
        for _ in 0..frame.items {
            read(from)?;
        }
        from.go_to(frame.end)
    }

    /// Calls `read` at each item of a list of records.
    fn each_record(
        from: &mut Cursor<'_>,
        mut read: impl FnMut(&mut Cursor<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        Self::each(from, |from| Self::record(from, &mut read))
    }

    /// Calls `read` in a record, and continues after it.
    fn record<T>(
        from: &mut Cursor<'_>,
        read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let frame = Self::enter(from, false)?;
        let value = read(from)?;
        from.go_to(frame.end)?;
        Ok(value)
    }
}

/// Feature flags: none is known, and each may change the layout.
fn check_features(from: &mut Cursor<'_>) -> Result<(), Refusal> {
    loop {
        let flags = from.i64_le()?;
        if flags & i64::MAX != 0 {
            return Err(Refusal::UnknownVersion("an RNTuple with features"));
        }
        if flags >= 0 {
            return Ok(());
        }
    }
}

/// The place of a page or an envelope.
struct Locator {
    position: u64,
    len: u64,
}

impl Locator {
    fn read(from: &mut Cursor<'_>) -> Result<Self, Refusal> {
        /// The type of a locator with a length of eight bytes.
        const LARGE: u32 = 1;
        let begin = from.position();
        let head = from.i32_le()?;
        if head >= 0 {
            return Ok(Self { len: u64::from(head.unsigned_abs()), position: from.u64_le()? });
        }
        // The low half is the length of the locator, negated with the whole; the type is in the high byte.
        let head = head.unsigned_abs();
        if head >> 24 != LARGE {
            return Err(Refusal::UnknownVersion("a locator of an RNTuple"));
        }
        let (len, position) = (from.u64_le()?, from.u64_le()?);
        from.go_to(begin + (head & 0xffff) as usize)?;
        Ok(Self { position, len })
    }
}

/// A field; columns belong to fields.
struct Field {
    path: String,
    depth: usize,
    columns: u32,
}

/// An `RNTuple` whose envelopes arrive: header, footer, then the page list of each group.
pub(crate) struct Ntuple {
    name: String,
    table: TableBuilder,
    fields: Vec<Field>,
    /// Bytes of all paths of fields.
    paths_len: usize,
    entries: u64,
    clusters: u32,
}

impl Ntuple {
    pub(crate) const fn new(name: String, table: TableBuilder) -> Self {
        Self { name, table, fields: Vec::new(), paths_len: 0, entries: 0, clusters: 0 }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the header, which comes before all else.
    pub(crate) fn handle_header(&mut self, link: Link, stored: &[u8]) -> Result<(), Refusal> {
        envelope(link, stored, HEADER, |from| {
            check_features(from)?;
            for _name_description_writer in 0..3 {
                from.string_le()?;
            }
            self.read_schema(from)
        })
    }

    /// Reads the footer; returns the links of page lists, in order of clusters.
    pub(crate) fn handle_footer(&mut self, link: Link, stored: &[u8]) -> Result<Vec<Link>, Refusal> {
        envelope(link, stored, FOOTER, |from| {
            check_features(from)?;
            from.skip(8)?;
            Frame::record(from, |from| self.read_schema(from))?;
            let mut links = Vec::new();
            Frame::each_record(from, |from| {
                let (first_entry, span) = (from.u64_le()?, from.u64_le()?);
                self.entries = self.entries.max(first_entry.saturating_add(span));
                from.skip(4)?;
                let inflated_len = from.u64_le()?;
                let Locator { position, len } = Locator::read(from)?;
                if links.len() >= CLUSTER_GROUPS_MAX {
                    return Err(Refusal::TooLarge("number of cluster groups"));
                }
                links.push(Link { position, stored_len: len, inflated_len });
                Ok(())
            })?;
            Ok(links)
        })
    }

    /// Fields and columns, of the header or of its extension in the footer.
    fn read_schema(&mut self, from: &mut Cursor<'_>) -> Result<(), Refusal> {
        Frame::each_record(from, |from| {
            from.skip(8)?;
            let parent = from.u32_le()? as usize;
            from.skip(4)?;
            let name = String::from_utf8_lossy(from.string_le()?);
            self.add_field(parent, &name)
        })?;
        Frame::each_record(from, |from| {
            from.skip(4)?;
            let field = from.u32_le()? as usize;
            let field = self.fields.get_mut(field).ok_or(Refusal::Damaged("a column without a field"))?;
            self.table.add_column(&[&field.path, "#", &field.columns.to_string()])?;
            field.columns += 1;
            Ok(())
        })
    }

    fn add_field(&mut self, parent: usize, name: &str) -> Result<(), Refusal> {
        let (path, depth) = match self.fields.get(parent) {
            Some(parent) => ([&parent.path, ".", name].concat(), parent.depth + 1),
            // A field of the top level is its own parent.
            None if parent == self.fields.len() => (name.to_owned(), 1),
            None => return Err(Refusal::Damaged("a field without a parent")),
        };
        self.paths_len += path.len();
        if depth > DEPTH_MAX {
            return Err(Refusal::TooLarge("nesting of fields"));
        }
        if self.fields.len() >= COLUMNS_MAX || self.paths_len > PATHS_LEN_MAX {
            return Err(Refusal::TooLarge("number of fields"));
        }
        self.fields.push(Field { path, depth, columns: 0 });
        Ok(())
    }

    /// Reads a page list. They come in order of clusters.
    pub(crate) fn handle_page_list(&mut self, link: Link, stored: &[u8]) -> Result<(), Refusal> {
        let (first_cluster, table) = (self.clusters, &mut self.table);
        let (mut summaries, mut clusters) = (0_u32, 0_u32);
        envelope(link, stored, PAGE_LIST, |from| {
            from.skip(8)?;
            Frame::each_record(from, |from| {
                from.skip(8)?;
                // The low 56 bits are the number of entries.
                if from.u64_le()? >> 56 != 0 {
                    return Err(Refusal::UnknownVersion("an RNTuple with sharded clusters"));
                }
                summaries += 1;
                Ok(())
            })?;
            Frame::each(from, |from| {
                let mut column = 0;
                let cluster = first_cluster.checked_add(clusters).ok_or(Refusal::TooLarge("number of clusters"))?;
                Frame::each(from, |from| {
                    Frame::each(from, |from| read_page(from, table, column, cluster))?;
                    column += 1;
                    Ok(())
                })?;
                clusters += 1;
                Ok(())
            })
        })?;
        if summaries != clusters {
            return Err(Refusal::Damaged("a page list with other clusters than stated"));
        }
        self.clusters += clusters;
        Ok(())
    }

    /// The table and the bytes that it takes.
    pub(crate) fn finish(self) -> (Tree, usize) {
        self.table.finish(self.name, TreeKind::RNTuple, self.entries, self.clusters)
    }
}

/// Bytes of all paths of fields, which are dropped with the header's.
const PATHS_LEN_MAX: usize = 16 << 20;

/// Reads a page; of the list's items only these count, the rest of its frame is about the column.
fn read_page(from: &mut Cursor<'_>, table: &mut TableBuilder, column: usize, cluster: u32) -> Result<(), Refusal> {
    /// Bytes behind a page with a checksum, read together with it.
    const CHECKSUM_LEN: u64 = 8;
    let has_checksum = from.i32_le()? < 0;
    let page = Locator::read(from)?;
    let len = if has_checksum { page.len.saturating_add(CHECKSUM_LEN) } else { page.len };
    let len = u32::try_from(len).map_err(|_| Refusal::TooLarge("size of a page"))?;
    table.add_item(column, cluster, page.position, len)
}

//! Settings from the command line alone.

use crate::raw::{Raw, RawExport, Texts};
use toml::Spanned;

/// The settings that have a flag, as they were written. They stand for a file with one export of everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Flags {
    /// `--listen ADDRESS:PORT`, any number of them.
    pub listen: Vec<String>,
    /// `--origin URL`, any number of them.
    pub origins: Vec<String>,
    /// `--export-dir DIRECTORY`.
    pub export_dir: Option<String>,
    /// `--writes refuse|redirect`.
    pub writes: Option<String>,
    /// `--store DIRECTORY`.
    pub store: Option<String>,
    /// `--forwarding PATTERN`, any number of them.
    pub forwarding: Vec<String>,
    /// `--block-size SIZE`.
    pub block_size: Option<String>,
    /// `--memory SIZE`.
    pub memory: Option<String>,
    /// `--budget SIZE`.
    pub budget: Option<String>,
    /// `--admin-listen ADDRESS:PORT`.
    pub admin_listen: Option<String>,
    /// `--admin-socket FILE`.
    pub admin_socket: Option<String>,
    /// `--direct never|complete`.
    pub direct: Option<String>,
    /// `--miss proxy|redirect`.
    pub miss: Option<String>,
    /// `--fill on-demand-blocks|while-open|to-end`.
    pub fill: Option<String>,
    /// `--log FILTER`.
    pub log: Option<String>,
}

impl Flags {
    pub(crate) fn into_raw(self) -> Raw {
        let mut raw = Raw::default();
        raw.server.listen = texts(self.listen);
        raw.store.path = self.store.map(text);
        raw.store.block_size = self.block_size.map(text);
        raw.memory.budget = self.memory.map(text);
        raw.purge.budget = self.budget.map(text);
        raw.admin.listen = self.admin_listen.map(text);
        raw.admin.socket = self.admin_socket.map(text);
        raw.forwarding.allow = texts(self.forwarding);
        raw.logging.filter = self.log.map(text);
        let export = RawExport {
            origins: texts(self.origins),
            directory: self.export_dir.map(text),
            writes: self.writes.map(text),
            direct: self.direct.map(text),
            miss: self.miss.map(text),
            fill: self.fill.map(text),
            ..RawExport::default()
        };
        if !export.written().is_empty() {
            raw.export.push(Spanned::new(0..0, export));
        }
        raw
    }
}

/// A text without a place in a file.
fn text(text: String) -> Spanned<String> {
    Spanned::new(0..0, text)
}

fn texts(texts: Vec<String>) -> Option<Spanned<Texts>> {
    (!texts.is_empty()).then(|| Spanned::new(0..0, texts.into_iter().map(text).collect()))
}

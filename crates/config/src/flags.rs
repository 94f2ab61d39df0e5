//! Settings from the command line alone.

use crate::{
    file::{Raw, RawExport, Table},
    value::{Field, Form},
};
use toml::Spanned;

/// The settings that have a flag, as a file with one export of `/`.
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
        raw.store.path = text(self.store);
        raw.store.block_size = text(self.block_size);
        raw.memory.budget = text(self.memory);
        raw.purge.budget = text(self.budget);
        raw.admin.listen = text(self.admin_listen);
        raw.admin.socket = text(self.admin_socket);
        raw.forwarding.allow = texts(self.forwarding);
        raw.logging.filter = text(self.log);
        let export = RawExport {
            origins: texts(self.origins),
            directory: text(self.export_dir),
            writes: text(self.writes),
            direct: text(self.direct),
            miss: text(self.miss),
            fill: text(self.fill),
            ..RawExport::default()
        };
        if !export.written().is_empty() {
            raw.export.push(Spanned::new(0..0, export));
        }
        raw
    }
}

fn text<F: Form<Toml = String>>(text: Option<String>) -> Field<F> {
    text.map(Field::without_place).unwrap_or_default()
}

fn texts<F: Form<Toml = Vec<Spanned<String>>>>(texts: Vec<String>) -> Field<F> {
    if texts.is_empty() {
        return Field::default();
    }
    Field::without_place(texts.into_iter().map(|text| Spanned::new(0..0, text)).collect())
}

//! The list of exports.

use crate::{
    checker::Checker,
    config::{ExportConfig, ExportFiles},
    convert::{parse_path, read_origins},
    decisions::{RawValidity, read_validity},
    raw::RawExport,
    service::{RawService, read_service},
};
use forebay_engine::Writes;
use forebay_types::Lfn;
use std::{convert::Infallible, ops::Range};
use toml::Spanned;

/// Most servers of one export: each may be waited for before the next one is tried.
const ORIGINS_MAX: usize = 64;

/// Reads the list; notes exports that say too much, too little, or the same path twice.
pub(crate) fn read_exports(raw: &[Spanned<RawExport>], checker: &mut Checker<'_>) -> Vec<ExportConfig> {
    let mut seen: Vec<(Lfn, String)> = Vec::new();
    let mut exports = Vec::new();
    for table in raw {
        let export = table.get_ref();
        let span = export.path.as_ref().map_or_else(|| table.span(), Spanned::span);
        let written = export.path.as_ref().map_or("/", |path| path.get_ref());
        let path = match Lfn::parse(written) {
            Ok(path) => path,
            Err(error) => {
                checker.refuse("export.path", Some(&span), format_args!("`{}`: {error}", written.escape_default()));
                continue;
            }
        };
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == path) {
            checker.refuse(
                "export.path",
                Some(&span),
                format_args!("a second export of {path}, the first is at {first}: write one export with all origins"),
            );
        }
        seen.push((path.clone(), checker.source().place("export.path", Some(&span))));
        if let (Some(files), writes) = (read_files(export, &span, checker), read_writes(export, checker)) {
            let validity = read_validity(&validity_of(export), checker);
            let mut asks_leave = false;
            let origin_check = export.origin_check.as_ref();
            checker.set(&mut asks_leave, "export.origin_check", origin_check, |&on| Ok::<_, Infallible>(on));
            let service = read_service(&service_of(export), checker);
            exports.push(ExportConfig { path, files, writes, validity, asks_leave, service });
        }
    }
    exports
}

fn read_files(export: &RawExport, span: &Range<usize>, checker: &mut Checker<'_>) -> Option<ExportFiles> {
    let (origins_name, directory_name) =
        (checker.source().name("export.origins"), checker.source().name("export.directory"));
    match (&export.origins, &export.directory) {
        (Some(origins), None) => {
            let count = origins.get_ref().len();
            if count == 0 || count > ORIGINS_MAX {
                let text =
                    format_args!("{count} origins: write 1 to {ORIGINS_MAX} such as \"root://origin.example:1094\"");
                checker.refuse("export.origins", Some(&origins.span()), text);
                return None;
            }
            let urls = read_origins(origins, checker)?;
            let tls = urls.first()?.tls;
            if urls.iter().any(|url| url.tls != tls) {
                let text = "some origins over TLS and some not: write roots:// for all of them, or for none";
                checker.refuse("export.origins", Some(&origins.span()), text);
            }
            let mut servers = urls.into_iter().map(|url| url.server);
            Some(ExportFiles::Origins { first: servers.next()?, others: servers.collect(), tls })
        }
        (None, Some(_)) => {
            let directory = checker.read("export.directory", export.directory.as_ref(), |text| parse_path(text))?;
            Some(ExportFiles::Directory(directory))
        }
        (Some(_), Some(directory)) => {
            let text = format_args!("both {origins_name} and {directory_name}: an export has one of them");
            checker.refuse("export.directory", Some(&directory.span()), text);
            None
        }
        (None, None) => {
            let text = format_args!("an export without files: give {origins_name} or {directory_name}");
            checker.refuse("export.origins", Some(span), text);
            None
        }
    }
}

fn service_of(export: &RawExport) -> RawService<'_> {
    RawService {
        names: ["export.direct", "export.miss", "export.fill"],
        direct: export.direct.as_ref(),
        miss: export.miss.as_ref(),
        fill: export.fill.as_ref(),
    }
}

fn validity_of(export: &RawExport) -> RawValidity<'_> {
    RawValidity {
        names: ["export.validity", "export.stale_max", "export.compare_checksum"],
        validity: export.validity.as_ref(),
        stale_max: export.stale_max.as_ref(),
        compare_checksum: export.compare_checksum.as_ref(),
    }
}

fn read_writes(export: &RawExport, checker: &mut Checker<'_>) -> Writes {
    let writes = checker.read("export.writes", export.writes.as_ref(), |text| match text.as_str() {
        "refuse" => Ok(Writes::Refuse),
        "redirect" if export.directory.is_some() => {
            Err("a directory is read-only and has no origin to redirect to: write \"refuse\"".to_owned())
        }
        "redirect" => Ok(Writes::Redirect),
        other => Err(format!("`{other}` is no way to treat writes: write \"refuse\" or \"redirect\"")),
    });
    writes.unwrap_or_default()
}

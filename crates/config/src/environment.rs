//! Checks of a configuration against the machine.

use crate::{
    base::{ConfigError, Problem, Role},
    config::{DiskConfig, ExportConfig, ExportFiles},
    settings::Settings,
};
use forebay_admin::TokenFile;
use forebay_net::{ClientTlsFiles, Credential, TlsAcceptor, TlsConnector, TlsError, TrustAnchors};
use forebay_proto::TlsUse;
use forebay_types::Scheme;
use rustix::fs::{Access, access};
use std::{
    fs,
    path::{Path, PathBuf},
};

impl Settings {
    /// Checks the configuration against this machine: that the store can be written and exported directories can be read.
    /// Changes nothing.
    ///
    /// # Errors
    /// All problems, with line and column.
    pub fn check_environment(&self) -> Result<(), ConfigError> {
        let mut problems = problems_at_start(self);
        for disk in &self.config.disks {
            let checked = match self.config.server.role {
                Role::Manager => check_shared(&disk.path),
                Role::Cache | Role::Filler if self.config.disks.len() > 1 => check_disk(disk),
                Role::Cache | Role::Filler => Ok(()),
            };
            problems.extend(checked.err().map(|text| self.problem_at(&disk.setting, text)));
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    /// As [`Self::check_environment`], without the disks if there are several: a server starts without those that are absent.
    ///
    /// # Errors
    /// All problems, with line and column.
    pub fn check_needed(&self) -> Result<(), ConfigError> {
        let problems = problems_at_start(self);
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }
}

fn problems_at_start(settings: &Settings) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    if let [disk] = settings.config.disks.as_slice()
        && settings.config.server.role != Role::Manager
        && let Err(text) = check_store(&disk.path)
    {
        problems.push(settings.problem_at(&disk.setting, text));
    }
    if let Some(path) = &settings.config.admin.token_file
        && let Err(error) = TokenFile::new(path.clone()).read()
    {
        problems.push(settings.problem_at("admin.token_file", error));
    }
    problems.extend(check_tls(settings));
    if let Some(search) = &settings.config.records.search
        && let Err(error) = search.check()
    {
        problems.push(settings.problem_at("opensearch.urls", error));
    }
    for (index, export) in settings.config.exports.iter().enumerate() {
        if let ExportFiles::Directory(directory) = &export.files
            && let Err(text) = check_directory(directory)
        {
            problems.push(settings.problem_at(&format!("export[{index}].directory"), text));
        }
    }
    problems
}

fn check_tls(settings: &Settings) -> Option<Problem> {
    let tls = &settings.config.tls;
    let problem = |error: TlsError, (certificate, key): (&str, &str), own: &Credential| {
        let setting = match &error {
            TlsError::File { path, .. } if *path == own.certificate => certificate,
            TlsError::File { path, .. } if *path == own.key => key,
            TlsError::SetUp { .. } => "tls.ciphers",
            _ => "tls.ca_dir",
        };
        settings.problem_at(setting, error)
    };
    if let Some(clients) = &tls.clients
        && let Err(error) = TlsAcceptor::new(clients.files.clone())
    {
        return Some(problem(error, ("tls.certificate", "tls.key"), &clients.files.credential));
    }
    let is_encrypted = |export: &ExportConfig| uses_tls(&export.files);
    let is_trust_needed = tls.own.is_some()
        || tls.trust.ca_dir != TrustAnchors::default().ca_dir
        || settings.config.exports.iter().any(is_encrypted);
    if !is_trust_needed {
        return None;
    }
    let files = ClientTlsFiles { trust: tls.trust.clone(), credential: tls.own.clone() };
    let error = TlsConnector::new(files).err()?;
    let none = Credential { certificate: PathBuf::new(), key: PathBuf::new() };
    Some(problem(error, ("origin.certificate", "origin.key"), tls.own.as_ref().unwrap_or(&none)))
}

fn uses_tls(files: &ExportFiles) -> bool {
    match files {
        ExportFiles::Origins { tls, .. } => *tls == TlsUse::Always,
        ExportFiles::HttpOrigins { first, others } => {
            std::iter::once(first).chain(others).any(|origin| origin.scheme != Scheme::Http)
        }
        ExportFiles::Alternatives(files) => files.iter().any(uses_tls),
        ExportFiles::Directory(_) => false,
    }
}

/// Checks one of several disks.
fn check_disk(disk: &DiskConfig) -> Result<(), String> {
    let shown = disk.path.display();
    if !disk.path.is_dir() {
        return Err(format!("{shown} is not a directory: mount the disk, or create the directory"));
    }
    if disk.is_mounted && !forebay_store::is_mount_point(&disk.path) {
        return Err(format!("{shown} is not a mount point: mount the disk"));
    }
    check_store(&disk.path)
}

/// Checks that files can be stored below `store`, which may have to be created.
fn check_store(store: &Path) -> Result<(), String> {
    let shown = store.display();
    let existing = store.ancestors().find(|path| path.symlink_metadata().is_ok());
    let Some(existing) = existing.or_else(|| store.is_relative().then(|| Path::new("."))) else {
        return Err(format!("{shown} cannot be created: choose another directory"));
    };
    if !existing.is_dir() {
        return Err(format!("{} is not a directory: choose another one for the store", existing.display()));
    }
    access(existing, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        let reason = std::io::Error::from(errno);
        if existing == store {
            format!("{shown} cannot be written: {reason}; give it to the user that runs the server")
        } else {
            let parent = existing.display();
            format!("{shown} cannot be created in {parent}: {reason}; create it for the user that runs the server")
        }
    })
}

/// Checks that a manager can read the store that another process fills.
fn check_shared(store: &Path) -> Result<(), String> {
    let shown = store.display();
    if !store.is_dir() {
        return Err(format!("{shown} is not a directory: mount the file system of the filler's store"));
    }
    access(store, Access::READ_OK | Access::EXEC_OK).map_err(|errno| {
        let reason = std::io::Error::from(errno);
        format!("{shown} cannot be read: {reason}; run the manager as the user that runs the filler")
    })
}

fn check_directory(directory: &Path) -> Result<(), String> {
    match fs::read_dir(directory) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(format!("{} cannot be exported: {error}; choose a directory that can be read", directory.display()))
        }
    }
}

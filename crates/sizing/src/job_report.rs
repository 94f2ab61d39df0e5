//! The efficiency of jobs as a report: `forebay efficiency --json` writes it, and the status page shows it.

use crate::{
    efficiency::{Efficiency, JobSums},
    jobs::DataSource,
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap};

/// The efficiency of all jobs by the source of their input, of all sites and of each.
#[derive(Debug, Deserialize, Serialize)]
pub struct JobReport {
    pub jobs: u64,
    pub wall_hours: f64,
    /// The efficiency that savings are computed with.
    pub efficiency_from_cache: Option<f64>,
    pub sources: Vec<JobRow>,
    pub sites: Vec<JobRow>,
}

/// The jobs with one source of their input, of all sites or of one.
#[derive(Debug, Deserialize, Serialize)]
pub struct JobRow {
    pub site: Option<String>,
    pub source: Cow<'static, str>,
    pub jobs: u64,
    pub wall_hours: f64,
    pub cpu_hours: f64,
    pub efficiency: Option<f64>,
    pub plus_minus: Option<f64>,
    pub bytes_per_wall_second: f64,
    pub saved_hours: Option<f64>,
    /// Of the time of all jobs, or of those of the site.
    pub saved_share: Option<f64>,
}

impl JobReport {
    /// The report on these sums.
    pub fn of(efficiency: &Efficiency) -> Self {
        let with = efficiency.from_cache();
        let wall = |sums: &BTreeMap<&'static str, JobSums>| sums.values().map(|sums| sums.wall_seconds).sum::<f64>();
        let rows = |site: Option<&str>, of: &BTreeMap<&'static str, JobSums>| {
            let all = wall(of);
            let row = |source: DataSource| Some(JobRow::of(site, source, of.get(source.as_str())?, all, with));
            DataSource::ALL.into_iter().filter_map(row).collect::<Vec<_>>()
        };
        Self {
            jobs: efficiency.sources.values().map(|sums| sums.jobs).sum(),
            wall_hours: wall(&efficiency.sources) / 3600.0,
            efficiency_from_cache: with,
            sources: rows(None, &efficiency.sources),
            sites: efficiency.sites.iter().flat_map(|(site, of)| rows(Some(site), of)).collect(),
        }
    }
}

impl JobRow {
    fn of(site: Option<&str>, source: DataSource, sums: &JobSums, all_seconds: f64, with: Option<f64>) -> Self {
        let saved = with.map(|with| sums.saved_seconds(with));
        Self {
            site: site.map(str::to_owned),
            source: source.as_str().into(),
            jobs: sums.jobs,
            wall_hours: sums.wall_seconds / 3600.0,
            cpu_hours: sums.cpu_seconds / 3600.0,
            efficiency: sums.efficiency(),
            plus_minus: sums.error(),
            bytes_per_wall_second: sums.read as f64 / sums.wall_seconds.max(1.0),
            saved_hours: saved.map(|saved| saved / 3600.0),
            saved_share: saved.map(|saved| saved / all_seconds.max(1.0)),
        }
    }
}

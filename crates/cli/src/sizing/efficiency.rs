//! `forebay efficiency`: the processor efficiency of jobs by the source of their input.

use super::{
    amount::decimal,
    records::{RecordArgs, each_line},
    table,
};
use crate::{failure::UsageError, text};
use forebay_sizing::{DataSource, Efficiency, Job, JobImport, JobSums, Join};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
    path::PathBuf,
};

/// Compare the processor efficiency of jobs by where their input came from
///
/// Joins records of jobs with those of accesses by user, input and time, and prints the efficiency of jobs whose input came from the cache, from
/// origins, or from elsewhere, and the hours that would be saved if all input came from the cache. docs/sizing.md names the fields of jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct EfficiencyArgs {
    /// Records of jobs, as JSON lines or CSV
    #[arg(long, required = true, value_delimiter = ',', value_name = "FILE")]
    jobs: Vec<PathBuf>,
    #[command(flatten)]
    records: RecordArgs,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    jobs: u64,
    wall_hours: f64,
    /// The efficiency that savings are computed with.
    efficiency_from_cache: Option<f64>,
    sources: Vec<Row>,
    sites: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    site: Option<String>,
    source: &'static str,
    jobs: u64,
    wall_hours: f64,
    cpu_hours: f64,
    efficiency: Option<f64>,
    plus_minus: Option<f64>,
    bytes_per_wall_second: f64,
    saved_hours: Option<f64>,
    /// Of the time of all jobs, or of those of the site.
    saved_share: Option<f64>,
}

pub(crate) fn run(args: &EfficiencyArgs) -> anyhow::Result<()> {
    let jobs = read_jobs(&args.jobs)?;
    let records = args.records.read()?;
    let join = Join::new(&records.accesses);
    let report = Report::of(&Efficiency::of(&jobs, &join));
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        report.print(&mut out)?;
    }
    Ok(out.flush()?)
}

fn read_jobs(paths: &[PathBuf]) -> anyhow::Result<Vec<Job>> {
    let mut import = JobImport::default();
    for path in paths {
        import.begin();
        each_line(path, &mut |place, line| {
            import.line(line).map_err(|problem| anyhow::anyhow!("{place}: not a record of a job: {problem}"))
        })?;
    }
    let jobs = import.finish();
    if jobs.is_empty() {
        return Err(UsageError("--jobs: the files have no jobs".to_owned()).into());
    }
    Ok(jobs)
}

impl Row {
    fn of(site: Option<&str>, source: DataSource, sums: &JobSums, all_seconds: f64, with: Option<f64>) -> Self {
        let saved = with.map(|with| sums.saved_seconds(with));
        Self {
            site: site.map(str::to_owned),
            source: source.as_str(),
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

    fn cells(&self) -> Vec<String> {
        let percent = |ratio: f64| format!("{:.1}", 100.0 * ratio);
        let error = self.plus_minus.map_or_else(String::new, |error| format!(" ± {}", percent(error)));
        let efficiency = self.efficiency.map_or_else(|| "-".to_owned(), |ratio| format!("{}{error} %", percent(ratio)));
        let saved = self.saved_hours.map_or_else(|| "-".to_owned(), |hours| format!("{hours:.1}"));
        let share = self.saved_share.map_or_else(|| "-".to_owned(), |share| format!("{} %", percent(share)));
        vec![
            self.site.as_deref().map_or_else(String::new, |site| text::printable(site).into_owned()),
            self.source.to_owned(),
            self.jobs.to_string(),
            format!("{:.1}", self.wall_hours),
            format!("{:.1}", self.cpu_hours),
            efficiency,
            format!("{}/s", decimal(self.bytes_per_wall_second)),
            saved,
            share,
        ]
    }
}

impl Report {
    fn of(efficiency: &Efficiency) -> Self {
        let with = efficiency.from_cache();
        let wall = |sums: &BTreeMap<&'static str, JobSums>| sums.values().map(|sums| sums.wall_seconds).sum::<f64>();
        let rows = |site: Option<&str>, of: &BTreeMap<&'static str, JobSums>| {
            let all = wall(of);
            let row = |source: DataSource| Some(Row::of(site, source, of.get(source.as_str())?, all, with));
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

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "Jobs       {}, {:.1} hours on all cores", self.jobs, self.wall_hours)?;
        match self.efficiency_from_cache {
            Some(ratio) => writeln!(
                out,
                "Saved      the hours that jobs would have needed less with {:.1} %, the efficiency of jobs that read from the cache\n",
                100.0 * ratio
            )?,
            None => writeln!(out, "           no job read from the cache: there is nothing to compare with\n")?,
        }
        let headings = ["", "input from", "jobs", "hours", "CPU hours", "efficiency", "read", "hours saved", "of all"];
        let cells = |rows: &[Row]| rows.iter().map(Row::cells).collect::<Vec<_>>();
        table::print(out, 2, &headings, &cells(&self.sources))?;
        if self.sites.iter().any(|row| row.site.as_deref() != self.sites.first().and_then(|row| row.site.as_deref())) {
            let headings =
                ["site", "input from", "jobs", "hours", "CPU hours", "efficiency", "read", "hours saved", "of site"];
            table::print(out, 2, &headings, &cells(&self.sites))?;
        }
        Ok(())
    }
}

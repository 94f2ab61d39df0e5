//! `forebay efficiency`: the processor efficiency of jobs by the source of their input.

use super::{
    amount::decimal,
    records::{RecordArgs, each_line},
    table,
};
use crate::{failure::UsageError, text};
use forebay_sizing::{Efficiency, Job, JobImport, JobReport, JobRow, Join};
use std::{
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

pub(crate) fn run(args: &EfficiencyArgs) -> anyhow::Result<()> {
    let jobs = read_jobs(&args.jobs)?;
    let records = args.records.read()?;
    let join = Join::new(&records.accesses);
    let report = JobReport::of(&Efficiency::of(&jobs, &join));
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        print(&report, &mut out)?;
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

fn cells_of(row: &JobRow) -> Vec<String> {
    let percent = |ratio: f64| format!("{:.1}", 100.0 * ratio);
    let error = row.plus_minus.map_or_else(String::new, |error| format!(" ± {}", percent(error)));
    let efficiency = row.efficiency.map_or_else(|| "-".to_owned(), |ratio| format!("{}{error} %", percent(ratio)));
    let saved = row.saved_hours.map_or_else(|| "-".to_owned(), |hours| format!("{hours:.1}"));
    let share = row.saved_share.map_or_else(|| "-".to_owned(), |share| format!("{} %", percent(share)));
    vec![
        row.site.as_deref().map_or_else(String::new, |site| text::printable(site).into_owned()),
        row.source.to_string(),
        row.jobs.to_string(),
        format!("{:.1}", row.wall_hours),
        format!("{:.1}", row.cpu_hours),
        efficiency,
        format!("{}/s", decimal(row.bytes_per_wall_second)),
        saved,
        share,
    ]
}

fn print(report: &JobReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Jobs       {}, {:.1} hours on all cores", report.jobs, report.wall_hours)?;
    match report.efficiency_from_cache {
        Some(ratio) => writeln!(
            out,
            "Saved      the hours that jobs would have needed less with {:.1} %, the efficiency of jobs that read from the cache\n",
            100.0 * ratio
        )?,
        None => writeln!(out, "           no job read from the cache: there is nothing to compare with\n")?,
    }
    let headings = ["", "input from", "jobs", "hours", "CPU hours", "efficiency", "read", "hours saved", "of all"];
    let cells = |rows: &[JobRow]| rows.iter().map(cells_of).collect::<Vec<_>>();
    table::print(out, 2, &headings, &cells(&report.sources))?;
    if report.sites.iter().any(|row| row.site.as_deref() != report.sites.first().and_then(|row| row.site.as_deref())) {
        let headings =
            ["site", "input from", "jobs", "hours", "CPU hours", "efficiency", "read", "hours saved", "of site"];
        table::print(out, 2, &headings, &cells(&report.sites))?;
    }
    Ok(())
}

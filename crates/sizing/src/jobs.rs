//! Records of jobs, and which of their input came from the cache.

use crate::{
    access::{Access, Accesses},
    csv::Header,
    time::parse_time_ms,
};
use serde_json::{Map, Value};
use std::{collections::HashMap, str};

/// Jobs read at most: about 300 bytes each.
pub const JOBS_MAX: usize = 5_000_000;

/// Time by which the clocks of jobs and of the cache may differ, and closes may be late: accesses are sought so long before the begin and
/// after the end of a job.
pub const JOIN_SLACK_MS: i64 = 120_000;

/// A job that has ended, on any number of cores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    pub user: String,
    pub site: String,
    /// A file, a directory or a dataset that it read; empty if the record does not have it.
    pub input: String,
    /// Begin and end, in milliseconds of the Unix epoch.
    pub start_ms: i64,
    pub end_ms: i64,
    /// Time that it ran, in seconds, on all of its cores together; and processor time.
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
}

forebay_types::named_enum! {
    /// Where most of the input of a job came from.
    pub enum DataSource {
        /// Nine tenths of the bytes or more from the cache.
        Cache = "cache",
        /// Some from the cache and some from origins.
        Mixed = "mixed",
        /// Nine tenths of the bytes or more from origins, through the cache.
        Origin = "origin",
        /// The records have no access of the job: it read elsewhere, or nothing.
        Elsewhere = "elsewhere",
    }
}

/// Part of the bytes from which on a job belongs to one source.
const MOST: f64 = 0.9;

/// Reads records of jobs: JSON objects on lines of their own, or CSV.
#[derive(Debug, Default)]
pub struct JobImport {
    jobs: Vec<Job>,
    header: Option<Header>,
    has_begun: bool,
}

/// Names of fields, the preferred one first; of those in hours, the unit.
const USER: &[&str] = &["user", "owner", "CRAB_UserHN", "Owner", "user_dn"];
const SITE: &[&str] = &["site", "Site", "computingsite", "MATCH_GLIDEIN_CMSSite"];
const INPUT: &[&str] = &["input", "dataset", "DESIRED_CMSDataset", "inDS", "path"];
const START: &[&str] = &["start", "start_time", "starttime", "JobCurrentStartDate"];
const END: &[&str] = &["end", "end_time", "endtime", "CompletionDate"];
const WALL: &[&str] = &["wall_seconds", "wall", "wall_time", "wallclock", "RemoteWallClockTime"];
const WALL_HOURS: &[&str] = &["wall_hours", "WallClockHr"];
const CPU: &[&str] = &["cpu_seconds", "cpu", "cpu_time", "cputime", "cpuconsumptiontime"];
const CPU_HOURS: &[&str] = &["cpu_hours", "CpuTimeHr"];
const CORES: &[&str] = &["cores", "RequestCpus", "corecount"];

impl JobImport {
    /// Begins a file, whose format is that of its first line.
    pub fn begin(&mut self) {
        self.header = None;
        self.has_begun = false;
    }

    /// Reads a line.
    ///
    /// # Errors
    /// The reason why the line is not a record of a job.
    pub fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = str::from_utf8(line).map_err(|_| "not UTF-8: convert the file")?.trim_end_matches(['\n', '\r']);
        if line.trim().is_empty() {
            return Ok(());
        }
        if !self.has_begun {
            self.has_begun = true;
            if !line.trim_start().starts_with('{') {
                self.header = Some(Header::parse(line)?);
                return Ok(());
            }
        }
        let fields = match &self.header {
            Some(header) => fields_of_csv(header, line)?,
            None => fields_of_json(line)?,
        };
        let job = job_of(&fields)?;
        if self.jobs.len() == JOBS_MAX {
            return Err(format!("more than {JOBS_MAX} jobs: take those of a shorter time"));
        }
        self.jobs.push(job);
        Ok(())
    }

    pub fn finish(self) -> Vec<Job> {
        self.jobs
    }
}

type Fields = HashMap<String, String>;

fn fields_of_csv(header: &Header, line: &str) -> Result<Fields, String> {
    let cells = header.cells(line)?;
    Ok(header.names().iter().cloned().zip(cells.into_iter().map(|cell| cell.trim().to_owned())).collect())
}

fn fields_of_json(line: &str) -> Result<Fields, String> {
    let mut object: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
    if let Some(Value::Object(source)) = object.remove("_source") {
        object = source;
    }
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    Ok(object.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect())
}

fn job_of(fields: &Fields) -> Result<Job, String> {
    let text = |names: &[&str]| {
        names.iter().find_map(|name| fields.get(*name)).filter(|text| !text.is_empty()).map(String::as_str)
    };
    let number = |names: &'static [&'static str]| -> Result<Option<f64>, String> {
        let Some(text) = text(names) else { return Ok(None) };
        let number = text.parse().ok().filter(|number: &f64| (0.0..=SECONDS_MAX).contains(number));
        number
            .map(Some)
            .ok_or_else(|| format!("{} is `{text:.40}`: write a number that is not negative", names.join(" or ")))
    };
    let time = |names: &'static [&'static str]| {
        let text = text(names).ok_or_else(|| format!("no time: it is expected in one of {}", names.join(", ")))?;
        parse_time_ms(text)
            .ok_or_else(|| format!("{} is `{text:.40}`: write seconds of the Unix epoch", names.join(" or ")))
    };
    let seconds = |names, in_hours| -> Result<Option<f64>, String> {
        Ok(number(names)?.or(number(in_hours)?.map(|hours| hours * 3600.0)))
    };
    let (start_ms, end_ms) = (time(START)?, time(END)?);
    if end_ms < start_ms {
        return Err("the job ends before it begins: exchange start and end".to_owned());
    }
    let cores = number(CORES)?.unwrap_or(1.0).max(1.0);
    let elapsed = (end_ms - start_ms) as f64 / 1000.0;
    Ok(Job {
        user: user_name(text(USER).unwrap_or_default()),
        site: text(SITE).unwrap_or_default().to_owned(),
        input: text(INPUT).unwrap_or_default().to_owned(),
        start_ms,
        end_ms,
        wall_seconds: cores * seconds(WALL, WALL_HOURS)?.unwrap_or(elapsed),
        cpu_seconds: seconds(CPU, CPU_HOURS)?
            .ok_or_else(|| format!("no processor time: it is expected in one of {}", CPU.join(", ")))?,
    })
}

/// Seconds of a job at most: a thousand years.
const SECONDS_MAX: f64 = 3.2e10;

/// The name by which users of jobs and of accesses are compared: the last CN of a distinguished name, in small letters.
fn user_name(user: &str) -> String {
    user.rsplit_once("CN=").map_or(user, |(_, name)| name).to_lowercase()
}

/// Bytes that jobs read through the cache.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Input {
    pub read: u64,
    pub saved: u64,
}

impl Input {
    /// The source of a job with this input.
    #[must_use]
    pub fn source(self) -> DataSource {
        let share = self.saved as f64 / self.read.max(1) as f64;
        match self.read {
            0 => DataSource::Elsewhere,
            _ if share >= MOST => DataSource::Cache,
            _ if share <= 1.0 - MOST => DataSource::Origin,
            _ => DataSource::Mixed,
        }
    }
}

/// Finds the input of jobs among accesses, by user, input and time.
#[derive(Debug)]
pub struct Join<'a> {
    accesses: &'a Accesses,
    /// Accesses with an outcome, by user and in the order of time.
    by_user: HashMap<String, Vec<Access>>,
}

impl<'a> Join<'a> {
    /// Prepares `accesses`, which must be sorted. Those without an outcome are left out.
    #[must_use]
    pub fn new(accesses: &'a Accesses) -> Self {
        let names: Vec<String> = accesses.users().iter().map(|user| user_name(user)).collect();
        let mut by_user: HashMap<String, Vec<Access>> = HashMap::new();
        for access in accesses.list().iter().filter(|access| access.saved != Access::UNKNOWN) {
            if let Some(name) = names.get(access.user as usize) {
                by_user.entry(name.clone()).or_default().push(*access);
            }
        }
        Self { accesses, by_user }
    }

    /// The bytes of the job's user that were read while it ran, and belong to its input if the record has one. Jobs of a user that read the
    /// same at the same time each get all of these bytes: their shares are equal.
    #[must_use]
    pub fn input(&self, job: &Job) -> Input {
        let of_user = self.by_user.get(&job.user).map(Vec::as_slice).unwrap_or_default();
        let (from, to) = (job.start_ms.saturating_sub(JOIN_SLACK_MS), job.end_ms.saturating_add(JOIN_SLACK_MS));
        let first = of_user.partition_point(|access| access.at_ms < from);
        let within = of_user.iter().skip(first).take_while(|access| access.at_ms <= to);
        let mut input = Input::default();
        for access in within {
            let file = self.accesses.files().get(access.file as usize);
            if file.is_some_and(|file| job.input.is_empty() || is_part_of(file.key.as_str(), &job.input)) {
                input.read = input.read.saturating_add(access.read);
                input.saved = input.saved.saturating_add(access.saved);
            }
        }
        input
    }
}

/// Whether the file at `path` is, or is part of, `input`: a path, a directory, or the name of a CMS dataset.
fn is_part_of(path: &str, input: &str) -> bool {
    let local = path.find(input).and_then(|at| path.get(at + input.len()..));
    if local.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || input.ends_with('/')) {
        return true;
    }
    // `/PRIMARY/ERA-VERSION/TIER` is stored below `/store/KIND/ERA/PRIMARY/TIER/VERSION`.
    let mut names = input.strip_prefix('/').unwrap_or_default().split('/');
    let (Some(primary), Some(processed), Some(tier), None) = (names.next(), names.next(), names.next(), names.next())
    else {
        return false;
    };
    let era = processed.split('-').next().unwrap_or_default();
    let Some((_, tail)) = path.split_once("/store/") else { return false };
    let mut stored = tail.split('/').skip(1);
    (stored.next(), stored.next(), stored.next()) == (Some(era), Some(primary), Some(tier))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::CacheKey;

    fn read(lines: &[&str]) -> Result<Vec<Job>, String> {
        let mut import = JobImport::default();
        import.begin();
        lines.iter().try_for_each(|line| import.line(line.as_bytes()))?;
        Ok(import.finish())
    }

    #[test]
    fn jobs_are_read_from_csv_and_json() {
        let job = Job {
            user: "ann".to_owned(),
            site: "T2_X".to_owned(),
            input: "/A/B-v1/AOD".to_owned(),
            start_ms: 1_000_000,
            end_ms: 4_600_000,
            wall_seconds: 14_400.0,
            cpu_seconds: 7200.0,
        };
        let csv = ["user,site,dataset,start,end,wall,cpu,cores", "Ann,T2_X,/A/B-v1/AOD,1000,4600,3600,7200,4"];
        assert_eq!(read(&csv), Ok(vec![job.clone()]));
        let json = r#"{"_source":{"CRAB_UserHN":"ann","Site":"T2_X","DESIRED_CMSDataset":"/A/B-v1/AOD","JobCurrentStartDate":1000,
            "CompletionDate":4600,"WallClockHr":1.0,"CpuTimeHr":2,"RequestCpus":4,"Args":[1]}}"#.replace('\n', "");
        assert_eq!(read(&[&json]), Ok(vec![job.clone()]));
        let short = r#"{"user":"/DC=x/CN=Ann","start":1000,"end":"1970-01-01T01:16:40Z","cpu":7200,"cores":4}"#;
        assert_eq!(read(&[short]), Ok(vec![Job { site: String::new(), input: String::new(), ..job }]));
    }

    #[test]
    fn a_bad_job_is_refused_with_its_reason() {
        for (lines, reason) in [
            (&["start,end", "1,2"][..], "no processor time: it is expected in one of cpu_seconds"),
            (&["start,end,cpu", "x,2,1"], "start or start_time or starttime or JobCurrentStartDate is `x`"),
            (&["start,end,cpu", "3,2,1"], "the job ends before it begins"),
            (&["start,end,cpu", "1,2,-1"], "is `-1`: write a number that is not negative"),
            (&["start,end,cpu", "1,2"], "2 columns where the first line has 3"),
            (&["{\"start\":1}"], "no time: it is expected in one of end"),
            (&["{"], "not a JSON object"),
        ] {
            let problem = read(lines).unwrap_err();
            assert!(problem.contains(reason), "{lines:?}: {problem}");
        }
    }

    #[test]
    fn inputs_are_files_directories_and_datasets() {
        let path = "/store/mc/Run3/DY/MINIAODSIM/v2/0000/a.root";
        for input in [path, "/store/mc/Run3/DY", "/store/mc/Run3/DY/", "/DY/Run3-v2/MINIAODSIM"] {
            assert!(is_part_of(path, input), "{input}");
            assert!(is_part_of(&format!("/root:/o:1094{path}"), input), "{input}");
        }
        for input in ["/store/mc/Run3/D", "/DY/Run2-v2/MINIAODSIM", "/DY/Run3-v2", "/x"] {
            assert!(!is_part_of(path, input), "{input}");
        }
    }

    #[test]
    fn accesses_are_those_of_the_user_and_the_input_while_the_job_ran() {
        let mut accesses = Accesses::default();
        let mut add = |path: &str, user: &str, at_ms, read, saved| {
            let access = Access { at_ms, file: 0, user: 0, read, saved };
            accesses.add(CacheKey::from_text(path).unwrap(), None, user, access).unwrap();
        };
        add("/d/a", "/DC=ch/CN=Ann", 1_000_000, 100, 95);
        add("/d/b", "ann", 1_500_000, 100, 90);
        add("/e/b", "ann", 1_500_001, 100, 0);
        add("/d/a", "bob", 1_500_002, 100, 0);
        add("/d/a", "ann", 1_500_003, 100, Access::UNKNOWN);
        add("/d/a", "ann", 9_000_000, 100, 0);
        accesses.sort();
        let join = Join::new(&accesses);
        let job = Job {
            user: "ann".to_owned(),
            input: "/d".to_owned(),
            start_ms: 900_000,
            end_ms: 1_600_000,
            ..Job::default()
        };
        let of = |job: &Job| (join.input(job), join.input(job).source());
        assert_eq!(of(&job), (Input { read: 200, saved: 185 }, DataSource::Cache));
        assert_eq!(of(&Job { input: String::new(), ..job.clone() }).1, DataSource::Mixed);
        assert_eq!(of(&Job { input: "/e".to_owned(), ..job.clone() }).1, DataSource::Origin);
        assert_eq!(of(&Job { end_ms: 1_000_000 - JOIN_SLACK_MS - 1, ..job.clone() }).1, DataSource::Elsewhere);
        assert_eq!(of(&Job { end_ms: 1_000_000 - JOIN_SLACK_MS, ..job }).0.read, 100);
    }
}

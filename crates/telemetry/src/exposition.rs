//! The metrics as OpenMetrics text.

use crate::{
    label::{IndexPhase, Label, ReadAheadEvent, ReadAheadSource, RequestKind},
    metrics::{Metrics, Others},
};
use forebay_types::Outcome;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use std::{fmt, sync::atomic::Ordering::Relaxed, time::Duration};

/// Name (without unit and `_total`), unit and help of a metric family.
pub(crate) struct Family {
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
}

/// The text that is being written, family by family.
pub(crate) struct Page<'p, 'e>(&'p mut DescriptorEncoder<'e>);

impl Metrics {
    /// All metrics in the OpenMetrics text format 1.0.0, ending with `# EOF`.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut rendered = String::new();
        text::encode(&mut rendered, &registry)?;
        Ok(rendered)
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(&mut encoder);
        page.build()?;
        self.0.encode_declared(&mut page)?;
        page.histograms(&self.0.others)?;
        page.read_ahead(&self.0.others)?;
        page.origins(&self.0.others)?;
        page.index_state(&self.0.others)?;
        page.process(&self.0.others)?;
        page.groups(&self.0.others)?;
        page.disks(&self.0.others)
    }
}

impl Family {
    pub(crate) fn new<const N: usize>(name: &'static str, unit: [Unit; N], help: &'static str) -> Self {
        Self { name, unit: unit.into_iter().next(), help }
    }
}

impl<'l> Page<'_, '_> {
    /// Writes a family of counters: the labels and value of each series.
    pub(crate) fn counters<const N: usize>(
        &mut self,
        family: Family,
        series: impl IntoIterator<Item = ([(&'static str, &'l str); N], u64)>,
    ) -> fmt::Result {
        let series = series.into_iter().map(|(labels, count)| (labels, ConstCounter::new(count)));
        self.family(family, MetricType::Counter, series)
    }

    /// Writes a family of gauges: the labels and value of each series.
    pub(crate) fn gauges<const N: usize>(
        &mut self,
        family: Family,
        series: impl IntoIterator<Item = ([(&'static str, &'l str); N], impl EncodeGaugeValue)>,
    ) -> fmt::Result {
        let series = series.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
        self.family(family, MetricType::Gauge, series)
    }

    fn family<const N: usize>(
        &mut self,
        Family { name, unit, help }: Family,
        kind: MetricType,
        series: impl IntoIterator<Item = ([(&'static str, &'l str); N], impl EncodeMetric)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in series {
            if N == 0 {
                // An empty set of labels would be written as `{}`.
                return value.encode(encoder);
            }
            value.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn build(&mut self) -> fmt::Result {
        self.0
            .encode_descriptor("forebay_build", "Version of this program", None, MetricType::Info)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }

    fn histograms(&mut self, others: &Others) -> fmt::Result {
        let family = Family::new(
            "forebay_request",
            [Unit::Seconds],
            "Time from receiving a read request to sending its last byte",
        );
        let series = Outcome::ALL.map(|outcome| ([("outcome", outcome.as_str())], others.request_seconds.of(outcome)));
        self.family(family, MetricType::Histogram, series)?;
        let family = Family::new("forebay_purge", [Unit::Seconds], "Duration of purges");
        self.family(family, MetricType::Histogram, [([], &others.purge_seconds)])?;
        let family = Family::new(
            "forebay_structure_parse",
            [Unit::Seconds],
            "Time spent on parsing the structure of a ROOT file",
        );
        self.family(family, MetricType::Histogram, [([], &others.structure_parse_seconds)])
    }

    fn read_ahead(&mut self, others: &Others) -> fmt::Result {
        let series = ReadAheadEvent::ALL.iter().flat_map(|event| {
            let of_event = others.read_ahead.of(*event);
            ReadAheadSource::ALL.iter().map(move |source| {
                let labels = [("event", event.as_str()), ("source", source.as_str())];
                (labels, of_event.of(*source).load(Relaxed))
            })
        });
        let help = "Bytes fetched by read-ahead, by event and by what they were expected from";
        self.counters(Family::new("forebay_read_ahead", [Unit::Bytes], help), series)?;
        if let Some(bytes) = others.structure_tables.read() {
            let help = "Memory of the tables of ROOT files that are open";
            self.gauges(Family::new("forebay_structure_table", [Unit::Bytes], help), [([], bytes)])?;
        }
        Ok(())
    }

    fn origins(&mut self, others: &Others) -> fmt::Result {
        let origins = others.origins.snapshot();
        let each = || origins.iter().map(|(origin, metrics)| ([("origin", origin.as_str())], metrics));
        let failing = Family::new("forebay_origins_failing", [], "Servers of origins that fail: see the log");
        self.gauges(failing, [([], others.origins.failing.known_count())])?;
        self.counters(
            Family::new("forebay_origin", [Unit::Bytes], "File bytes received from origins"),
            each().map(|(labels, metrics)| (labels, metrics.bytes.load(Relaxed))),
        )?;
        self.counters(
            Family::new("forebay_origin_requests", [], "Requests sent to origins"),
            each().flat_map(|([origin], metrics)| {
                RequestKind::ALL
                    .into_iter()
                    .map(move |kind| ([origin, ("kind", kind.as_str())], metrics.requests.of(kind).load(Relaxed)))
            }),
        )?;
        self.counters(
            Family::new("forebay_origin_errors", [], "Errors of origins"),
            each().map(|(labels, metrics)| (labels, metrics.errors.load(Relaxed))),
        )?;
        self.gauges(
            Family::new("forebay_origin_latency", [Unit::Seconds], "Recent time to the first byte of a read"),
            each().map(|(labels, metrics)| {
                (labels, Duration::from_micros(metrics.latency_us.load(Relaxed)).as_secs_f64())
            }),
        )?;
        self.gauges(
            Family::new("forebay_origin_rate", [], "Recent throughput from the origin in bytes per second"),
            each().map(|(labels, metrics)| (labels, metrics.bytes_per_s.load(Relaxed))),
        )
    }

    fn index_state(&mut self, others: &Others) -> fmt::Result {
        let now = others.index_phase.load(Relaxed);
        let state = |&phase: &IndexPhase| ([("state", phase.as_str())], u64::from(phase.index() == now));
        self.gauges(
            Family::new("forebay_index_state", [], "State of the index: 1 for the current state, 0 for the others"),
            IndexPhase::ALL.iter().map(state),
        )
    }

    fn process(&mut self, others: &Others) -> fmt::Result {
        if let Some(is_ready) = others.is_ready.read() {
            let family = Family::new("forebay_ready", [], "Whether the server accepts work: 1 or 0");
            self.gauges(family, [([], u64::from(is_ready))])?;
        }
        if let Some(files) = others.certificates.read() {
            let family = Family::new(
                "forebay_certificate_expiry",
                [Unit::Seconds],
                "Seconds until a certificate or proxy expires, negative afterwards",
            );
            let gauges = files.iter().map(|end| ([("file", end.file.as_str()), ("kind", end.kind())], end.seconds));
            self.gauges(family, gauges)?;
        }
        let age_ms = others.eviction_age_ms.load(Relaxed);
        if age_ms > 0 {
            let text = "How long the files removed last for lack of space had not been used";
            let family = Family::new("forebay_eviction_age", [Unit::Seconds], text);
            self.gauges(family, [([], Duration::from_millis(age_ms).as_secs_f64())])?;
        }
        if let Some(alive) = others.tasks.read() {
            self.gauges(Family::new("forebay_tasks", [], "Running tasks of the async runtime"), [([], alive)])?;
        }
        if let Some((limit_bytes, used_bytes)) = others.budget.read() {
            let limit = Family::new("forebay_budget", [Unit::Bytes], "Memory that buffers may use");
            self.gauges(limit, [([], limit_bytes)])?;
            let used = Family::new("forebay_budget_used", [Unit::Bytes], "Memory that buffers use");
            self.gauges(used, [([], used_bytes)])?;
        }
        Ok(())
    }

    fn groups(&mut self, others: &Others) -> fmt::Result {
        let Some(groups) = others.groups.read() else { return Ok(()) };
        let each = || {
            groups.iter().flat_map(|(group, sums)| {
                sums.iter().map(|(name, sum)| ([("by", group.as_str()), ("name", name.as_str())], sum))
            })
        };
        self.counters(
            Family::new("forebay_group_accesses", [], "Files closed by clients, by groups of files and clients"),
            each().map(|(labels, sum)| (labels, sum.accesses)),
        )?;
        self.counters(
            Family::new("forebay_group_hits", [], "Files of which all bytes read came from the cache, by groups"),
            each().map(|(labels, sum)| (labels, sum.hits)),
        )?;
        self.counters(
            Family::new("forebay_group_client", [Unit::Bytes], "Bytes of closed files sent to clients, by groups"),
            each().flat_map(|([by, name], sum)| {
                let outcomes = Outcome::ALL.into_iter().zip(sum.bytes);
                outcomes.map(move |(outcome, bytes)| ([by, name, ("outcome", outcome.as_str())], bytes))
            }),
        )
    }

    fn disks(&mut self, others: &Others) -> fmt::Result {
        let Some(disks) = others.disks.read() else { return Ok(()) };
        let each = || disks.iter().map(|disk| ([("disk", disk.path.as_str())], disk));
        self.gauges(
            Family::new("forebay_disk_state", [], "State of each disk: 1 for the current state, 0 for the others"),
            each().flat_map(|([path], disk)| {
                disk.states.iter().map(move |&(state, is_it)| ([path, ("state", state)], u64::from(is_it)))
            }),
        )?;
        self.gauges(
            Family::new("forebay_disk", [Unit::Bytes], "Size of each disk"),
            each().filter_map(|(labels, disk)| Some((labels, disk.total_bytes?))),
        )?;
        self.gauges(
            Family::new("forebay_disk_free", [Unit::Bytes], "Free space on each disk"),
            each().filter_map(|(labels, disk)| Some((labels, disk.free_bytes?))),
        )?;
        self.gauges(
            Family::new("forebay_disk_latency", [Unit::Seconds], "Recent mean time of operations on each disk"),
            each().map(|(labels, disk)| (labels, disk.latency.as_secs_f64())),
        )?;
        self.counters(
            Family::new("forebay_disk_failures", [], "Operations that failed because of the disk"),
            each().map(|(labels, disk)| (labels, disk.failures)),
        )
    }
}

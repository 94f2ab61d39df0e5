//! Plans the requests of a read.

use super::{assembly::Assembly, job::Job};
use crate::session::connection::VectorLimits;
use forebay_proto::limits::{VECTOR_ELEMENT_LEN_MAX, VECTOR_ELEMENTS_MAX};
use forebay_types::ByteRange;
use std::collections::{HashSet, VecDeque};

/// Bytes of one request: large enough that the cost of a request does not matter, small enough that a lost connection costs
/// little. Requests end at multiples of it.
pub(crate) const REQUEST_LEN_MAX: u64 = 2 << 20;

/// Longest range that is worth an element of a vector read rather than a request of its own.
const VECTOR_RANGE_LEN_MAX: u64 = 128 << 10;

/// Bytes of one vector read: a server may gather its whole answer before it sends the first byte.
const VECTOR_REQUEST_LEN_MAX: u64 = 4 << 20;

/// Limits of a server that does not report its own: those of the reference server.
pub(crate) const VECTOR_LIMITS_DEFAULT: VectorLimits =
    VectorLimits { elements_max: VECTOR_ELEMENTS_MAX as usize, element_len_max: VECTOR_ELEMENT_LEN_MAX as u64 };

/// The requests for file bytes that a server knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ability {
    /// Page reads; their checksums are worth more than the fewer requests of vector reads.
    Pages,
    /// Reads, and vector reads within these limits.
    Vectors(VectorLimits),
    Ranges,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    Pages,
    Range,
    Vector,
}

/// A request to be made for parts of the assembly, by number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Planned {
    pub(crate) form: Form,
    /// One part, except for a vector read.
    pub(crate) parts: Vec<usize>,
}

/// Whether vector reads would serve these jobs.
pub(crate) fn is_scattered(jobs: &[Job]) -> bool {
    jobs.iter().filter(|job| is_small(job)).take(2).count() > 1
}

/// Plans the requests for all that the jobs still miss, in the order of the jobs.
pub(crate) fn plan(jobs: &[Job], ability: Ability, assembly: &mut Assembly) -> VecDeque<Planned> {
    let vector_limits = match ability {
        // With fewer than two small ranges a vector read saves no request.
        Ability::Vectors(limits) if is_scattered(jobs) => Some(limits),
        _ => None,
    };
    let form = if ability == Ability::Pages { Form::Pages } else { Form::Range };
    let mut planned = VecDeque::new();
    let mut vector = Vector::default();
    for (index, job) in jobs.iter().enumerate() {
        let range = job.remaining;
        match vector_limits {
            // Equal elements in one request confuse servers and clients alike.
            Some(limits) if is_small(job) && range.len() <= limits.element_len_max && vector.seen.insert(range) => {
                if vector.is_full(range, limits) {
                    planned.extend(vector.take());
                }
                vector.len += range.len();
                vector.parts.push(assembly.add(index, range));
            }
            _ => {
                let parts = range.cut_at_multiples(REQUEST_LEN_MAX).map(|range| assembly.add(index, range));
                planned.extend(parts.map(|part| Planned { form, parts: vec![part] }));
            }
        }
    }
    planned.extend(vector.take());
    planned
}

#[derive(Default)]
struct Vector {
    parts: Vec<usize>,
    len: u64,
    seen: HashSet<ByteRange>,
}

impl Vector {
    fn is_full(&self, range: ByteRange, limits: VectorLimits) -> bool {
        self.parts.len() >= limits.elements_max || self.len + range.len() > VECTOR_REQUEST_LEN_MAX
    }

    fn take(&mut self) -> Option<Planned> {
        self.len = 0;
        let parts = std::mem::take(&mut self.parts);
        // A single element is delivered whole, while the bytes of a read are delivered as they arrive.
        let form = if parts.len() > 1 { Form::Vector } else { Form::Range };
        (!parts.is_empty()).then_some(Planned { form, parts })
    }
}

fn is_small(job: &Job) -> bool {
    job.remaining.len() <= VECTOR_RANGE_LEN_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_origin::Chunks;

    fn planned(ranges: &[ByteRange], ability: Ability) -> Vec<(Form, Vec<ByteRange>)> {
        let (jobs, _chunks): (Vec<_>, Vec<_>) = ranges
            .iter()
            .map(|&range| {
                let (sender, chunks) = Chunks::channel();
                (Job::new(range, sender), chunks)
            })
            .unzip();
        let mut assembly = Assembly::default();
        let planned = plan(&jobs, ability, &mut assembly);
        let ranges_of = |parts: Vec<usize>| parts.into_iter().map(|part| assembly.missing(part)).collect();
        planned.into_iter().map(|Planned { form, parts }| (form, ranges_of(parts))).collect()
    }

    #[test]
    fn large_ranges_are_cut_at_multiples() {
        let range = ByteRange::between(100, 2 * REQUEST_LEN_MAX + 1);
        let cut: Vec<_> = planned(&[range], Ability::Pages);
        let parts = [
            ByteRange::between(100, REQUEST_LEN_MAX),
            ByteRange::at(REQUEST_LEN_MAX, REQUEST_LEN_MAX),
            ByteRange::at(2 * REQUEST_LEN_MAX, 1),
        ];
        assert_eq!(cut, parts.map(|part| (Form::Pages, vec![part])));
    }

    #[test]
    fn scattered_small_ranges_share_a_vector_read() {
        let ranges = [ByteRange::at(0, 10), ByteRange::at(50, 10), ByteRange::at(1 << 30, 1 << 20)];
        let planned = planned(&ranges, Ability::Vectors(VECTOR_LIMITS_DEFAULT));
        assert_eq!(planned, [(Form::Range, vec![ranges[2]]), (Form::Vector, vec![ranges[0], ranges[1]])]);
    }

    #[test]
    fn a_vector_read_has_no_equal_elements() {
        let ranges = [ByteRange::at(0, 10), ByteRange::at(5, 10), ByteRange::at(0, 10)];
        let planned = planned(&ranges, Ability::Vectors(VECTOR_LIMITS_DEFAULT));
        assert_eq!(planned, [(Form::Range, vec![ranges[0]]), (Form::Vector, vec![ranges[0], ranges[1]])]);
    }

    #[test]
    fn vector_reads_keep_the_servers_limits() {
        let limits = VectorLimits { elements_max: 3, element_len_max: 10 };
        let ranges: Vec<_> = (0..7).map(|at| ByteRange::at(at * 100, 10)).chain([ByteRange::at(900, 11)]).collect();
        let counts: Vec<_> =
            planned(&ranges, Ability::Vectors(limits)).into_iter().map(|(form, parts)| (form, parts.len())).collect();
        assert_eq!(counts, [(Form::Vector, 3), (Form::Vector, 3), (Form::Range, 1), (Form::Range, 1)]);
    }

    #[test]
    fn a_single_range_or_a_server_without_vectors_needs_none() {
        let limits = Ability::Vectors(VECTOR_LIMITS_DEFAULT);
        assert_eq!(planned(&[ByteRange::at(0, 10)], limits), [(Form::Range, vec![ByteRange::at(0, 10)])]);
        let two = [ByteRange::at(0, 10), ByteRange::at(50, 10)];
        assert_eq!(planned(&two, Ability::Ranges), two.map(|range| (Form::Range, vec![range])));
    }
}

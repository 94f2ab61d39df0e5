//! Puts bytes that arrive in any order into the order in which readers get them.

use super::job::Job;
use forebay_origin::Chunk;
use forebay_types::ByteRange;
use std::collections::VecDeque;

/// The parts in which the ranges of some jobs are requested.
///
/// The bytes of each part arrive in order; the parts arrive in any order and at the same time. A job gets the bytes of
/// its first unfinished part at once, those of later ones when their turn comes.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    parts: Vec<Part>,
    /// The unfinished parts of each job, in order of offset.
    queues: Vec<VecDeque<usize>>,
}

#[derive(Debug)]
struct Part {
    job: usize,
    asked: ByteRange,
    missing: ByteRange,
    held: Vec<Chunk>,
}

/// Bytes that do not continue what has arrived of their part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Misplaced;

impl Assembly {
    /// Adds the next part of a job; returns its number.
    pub(crate) fn add(&mut self, job: usize, range: ByteRange) -> usize {
        let number = self.parts.len();
        self.parts.push(Part { job, asked: range, missing: range, held: Vec::new() });
        if self.queues.len() <= job {
            self.queues.resize_with(job + 1, VecDeque::new);
        }
        if let Some(queue) = self.queues.get_mut(job) {
            queue.push_back(number);
        }
        number
    }

    pub(crate) fn job_of(&self, part: usize) -> Option<usize> {
        self.parts.get(part).map(|part| part.job)
    }

    pub(crate) fn asked(&self, part: usize) -> ByteRange {
        self.parts.get(part).map_or_else(ByteRange::default, |part| part.asked)
    }

    /// The rest of a part that has not arrived.
    pub(crate) fn missing(&self, part: usize) -> ByteRange {
        self.parts.get(part).map_or_else(ByteRange::default, |part| part.missing)
    }

    /// Takes bytes of a part and delivers all bytes that are next in their job.
    pub(crate) fn take(&mut self, number: usize, offset: u64, chunk: Chunk, jobs: &mut [Job]) -> Result<(), Misplaced> {
        let part = self.parts.get_mut(number).ok_or(Misplaced)?;
        let len = u64::try_from(chunk.bytes.len()).map_err(|_| Misplaced)?;
        // A gap or a surplus would put bytes at wrong offsets: nothing of such a chunk is used.
        if offset != part.missing.start() || len > part.missing.len() {
            return Err(Misplaced);
        }
        part.missing = ByteRange::between(part.missing.start() + len, part.missing.end());
        let queue = self.queues.get_mut(part.job).ok_or(Misplaced)?;
        let job = jobs.get_mut(part.job).ok_or(Misplaced)?;
        // Readers get bytes in order of offset. The memory for held bytes was reserved by the reader before the
        // request.
        if queue.front() != Some(&number) {
            part.held.push(chunk);
            return Ok(());
        }
        job.deliver(chunk);
        // Later parts may have arrived before this one was complete.
        while let Some(front) = queue.front().and_then(|&front| self.parts.get_mut(front)) {
            front.held.drain(..).for_each(|chunk| job.deliver(chunk));
            if !front.missing.is_empty() {
                break;
            }
            queue.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use forebay_origin::Chunks;

    async fn drain(jobs: Vec<Job>, chunks: Vec<Chunks>) -> Vec<Vec<u8>> {
        drop(jobs);
        let mut read = Vec::new();
        for mut chunks in chunks {
            let mut bytes = Vec::new();
            while let Some(chunk) = chunks.next().await {
                bytes.extend_from_slice(&chunk.unwrap().bytes);
            }
            read.push(bytes);
        }
        read
    }

    fn sent(bytes: &'static [u8]) -> Chunk {
        Bytes::from_static(bytes).into()
    }

    fn jobs(ranges: &[ByteRange]) -> (Vec<Job>, Vec<Chunks>) {
        ranges
            .iter()
            .map(|&range| {
                let (sender, chunks) = Chunks::channel();
                (Job::new(range, sender), chunks)
            })
            .unzip()
    }

    #[tokio::test]
    async fn parts_in_any_order_are_delivered_in_order() {
        let (mut jobs, chunks) = jobs(&[ByteRange::at(0, 6), ByteRange::at(100, 2)]);
        let mut assembly = Assembly::default();
        let first = assembly.add(0, ByteRange::at(0, 2));
        let second = assembly.add(0, ByteRange::at(2, 2));
        let third = assembly.add(0, ByteRange::at(4, 2));
        let other = assembly.add(1, ByteRange::at(100, 2));
        assembly.take(third, 4, sent(b"ef"), &mut jobs).unwrap();
        assembly.take(second, 2, sent(b"c"), &mut jobs).unwrap();
        assembly.take(other, 100, sent(b"xy"), &mut jobs).unwrap();
        assert_eq!(jobs[0].remaining, ByteRange::at(0, 6));
        assembly.take(first, 0, sent(b"ab"), &mut jobs).unwrap();
        assert_eq!(jobs[0].remaining, ByteRange::at(3, 3));
        assembly.take(second, 3, sent(b"d"), &mut jobs).unwrap();
        assert_eq!(drain(jobs, chunks).await, [b"abcdef".to_vec(), b"xy".to_vec()]);
    }

    #[test]
    fn gaps_repeats_and_surplus_are_refused() {
        let (mut jobs, _chunks) = jobs(&[ByteRange::at(0, 4)]);
        let mut assembly = Assembly::default();
        let part = assembly.add(0, ByteRange::at(0, 4));
        assert_eq!(assembly.take(part, 1, sent(b"b"), &mut jobs), Err(Misplaced));
        assert_eq!(assembly.take(part, 0, sent(b"abcde"), &mut jobs), Err(Misplaced));
        assembly.take(part, 0, sent(b"ab"), &mut jobs).unwrap();
        assert_eq!(assembly.take(part, 0, sent(b"ab"), &mut jobs), Err(Misplaced));
        assert_eq!(assembly.missing(part), ByteRange::at(2, 2));
    }
}

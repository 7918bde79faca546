//! The five offsets that say what is true of a log, kept in one place.

use engine_record::Offset;

/// What a log has, has written, has made durable, and may show. All exclusive ends but `log_start`.
///
/// ```text
/// log_start <= high_watermark <= log_end
///              flushed <= written <= log_end
/// ```
///
/// The two lines are independent: on topics that don't wait for the disk the high watermark passes `flushed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOffsets {
    /// The earliest offset a client may read; inclusive.
    pub log_start: Offset,
    /// Below it every record is on all in-sync replicas, as the topic's flush mode counts; clients read up to here.
    pub high_watermark: Offset,
    /// Below it every record is durable on this disk.
    pub flushed: Offset,
    /// Below it the device has completed every write: the gapless prefix, on a batch boundary.
    pub written: Offset,
    /// The offset the next record gets.
    pub log_end: Offset,
}

impl LogOffsets {
    /// The offsets of a log that has nothing yet, or nothing any more.
    #[must_use]
    pub const fn empty(log_start: Offset) -> Self {
        Self {
            log_start,
            high_watermark: log_start,
            flushed: log_start,
            written: log_start,
            log_end: log_start,
        }
    }

    /// Asserts the order of the offsets.
    ///
    /// # Panics
    /// Where it is broken.
    pub fn check(&self) {
        assert!(self.log_start <= self.high_watermark, "log_start <= high_watermark: {self:?}");
        assert!(self.high_watermark <= self.log_end, "high_watermark <= log_end: {self:?}");
        assert!(self.flushed <= self.written, "flushed <= written: {self:?}");
        assert!(self.written <= self.log_end, "written <= log_end: {self:?}");
    }

    pub(crate) fn append_to(&mut self, log_end: Offset) {
        assert!(log_end > self.log_end, "an append adds at least one offset");
        self.log_end = log_end;
        self.check();
    }

    pub(crate) fn write_to(&mut self, written: Offset) {
        assert!(written >= self.written, "written bytes stay written");
        self.written = written;
        self.check();
    }

    pub(crate) fn flush_to(&mut self, up_to: Offset) {
        assert!(up_to <= self.written, "a flush covers only what was written before it began");
        self.flushed = self.flushed.max(up_to);
        self.check();
    }

    pub(crate) fn advance_high_watermark(&mut self, to: Offset) {
        assert!(to <= self.log_end, "the high watermark {to} is at most the log's end {}", self.log_end);
        self.high_watermark = self.high_watermark.max(to);
        self.check();
    }

    pub(crate) fn advance_log_start(&mut self, to: Offset) {
        assert!(to <= self.high_watermark, "only what clients may have read leaves at the front");
        self.log_start = self.log_start.max(to);
        self.check();
    }

    pub(crate) fn truncate_to(&mut self, log_end: Offset) {
        assert!(log_end <= self.log_end, "a truncation only removes");
        self.log_end = log_end;
        self.log_start = self.log_start.min(log_end);
        self.written = self.written.min(log_end);
        self.flushed = self.flushed.min(log_end);
        self.high_watermark = self.high_watermark.min(log_end);
        self.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(value: i64) -> Offset {
        Offset::new(value).unwrap()
    }

    fn filled() -> LogOffsets {
        let mut offsets = LogOffsets::empty(offset(10));
        offsets.append_to(offset(50));
        offsets.write_to(offset(40));
        offsets.flush_to(offset(30));
        offsets.advance_high_watermark(offset(45));
        offsets
    }

    #[test]
    fn the_high_watermark_and_the_flushed_offset_never_go_back() {
        let mut offsets = filled();
        offsets.advance_high_watermark(offset(20));
        offsets.flush_to(offset(20));
        assert_eq!(offsets, filled());
    }

    #[test]
    fn a_truncation_takes_every_offset_above_it_along() {
        let mut offsets = filled();
        offsets.truncate_to(offset(35));
        let expected = LogOffsets {
            log_start: offset(10),
            high_watermark: offset(35),
            flushed: offset(30),
            written: offset(35),
            log_end: offset(35),
        };
        assert_eq!(offsets, expected);
    }

    #[test]
    #[should_panic(expected = "a flush covers only what was written")]
    fn a_flush_beyond_the_written_offset_stops_the_process() {
        filled().flush_to(offset(41));
    }

    #[test]
    #[should_panic(expected = "at most the log's end")]
    fn a_high_watermark_beyond_the_log_stops_the_process() {
        filled().advance_high_watermark(offset(51));
    }

    #[test]
    #[should_panic(expected = "only what clients may have read")]
    fn a_log_start_beyond_the_high_watermark_stops_the_process() {
        filled().advance_log_start(offset(46));
    }
}

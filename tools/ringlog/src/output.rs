//! Standard output and standard error, whose readers may go away at any time: `ringlog bench | head -1`.
//!
//! Everything a command says goes through here. A reader that has gone away wanted no more, which is never a command's
//! failure; one that can't take what it is told (a full drive behind `>`) is.

use std::fmt::{self, Display};
use std::io::{self, Write};

use crate::failure::Failure;

/// Whether anybody still reads what is printed.
#[must_use = "printing more to a reader that has gone is work for nobody"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Somebody may.
    Listens,
    /// Nobody does.
    Gone,
}

/// What writing to standard output came to.
///
/// # Errors
/// It can't be written to, other than for want of a reader.
pub(crate) fn reader(written: io::Result<()>) -> Result<Reader, Failure> {
    match written {
        Ok(()) => Ok(Reader::Listens),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::failed(format!("standard output: {error}"))),
    }
}

/// Prints lines at once, for whoever still reads.
///
/// # Errors
/// As [`reader`].
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    match reader(write_line(&mut io::stdout().lock(), &text))? {
        Reader::Listens | Reader::Gone => Ok(()),
    }
}

/// Says something beside the output, on standard error.
pub(crate) fn tell(text: impl Display) {
    // Where nobody hears it, the exit code says what it has to.
    let _unheard = write_line(&mut io::stderr().lock(), &text);
}

/// So many things of a kind whose name takes an `s` where there isn't exactly one: `1 record`, `2 records`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<N>(pub(crate) N, pub(crate) &'static str);

impl<N: Display + PartialEq + From<u8>> Display for Counted<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, name) = self;
        let plural = if *count == N::from(1) { "" } else { "s" };
        write!(f, "{count} {name}{plural}")
    }
}

/// In one piece: what several threads or processes say at once isn't mixed within a line.
fn write_line(out: &mut impl Write, text: &impl Display) -> io::Result<()> {
    out.write_all(format!("{text}\n").as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_kind_is_no_plural() {
        let counted = [0_u64, 1, 2, 11, 21].map(|count| Counted(count, "record").to_string());
        assert_eq!(counted, ["0 records", "1 record", "2 records", "11 records", "21 records"]);
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure_and_a_full_drive_is() {
        let (reading, mut writing) = io::pipe().unwrap();
        assert_eq!(reader(write_line(&mut writing, &"heard")).unwrap(), Reader::Listens);
        drop(reading);
        assert_eq!(reader(write_line(&mut writing, &"unheard")).unwrap(), Reader::Gone);
        let failure = reader(Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(failure.code(), 1);
        assert!(failure.to_string().starts_with("standard output: "), "{failure}");
    }
}

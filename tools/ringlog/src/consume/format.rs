//! `--format`: records as kcat's `-f` prints them.

use std::io::{self, Write};

use engine_record::PartitionIndex;
use net_client::ConsumedRecord;

use crate::escapes::unescape;

/// What is printed of each record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    KeyBytes,
    Value,
    ValueBytes,
    /// In four bytes, the highest first.
    ValueBytesBinary,
    Timestamp,
    Headers,
}

/// What stands behind a percent sign is nothing that can be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`%{0}` is nothing of a record; there are %t topic, %p partition, %o offset, %k key, %K its bytes, %s value, %S its bytes, \
     %R the same in four bytes, %T timestamp, %h headers, %% a percent sign"
)]
pub(crate) struct NoPiece(String);

/// Reads a format.
pub(crate) fn parse(text: &str) -> Result<Format, NoPiece> {
    let mut pieces = Vec::new();
    let mut parts = text.split('%');
    pieces.extend(parts.next().map(literal));
    while let Some(part) = parts.next() {
        let mut letters = part.chars();
        let letter = letters.next();
        // Nothing between two percent signs: it is the second that counts, and what follows is text.
        let (piece, rest) = match letter {
            Some(letter) => (piece(letter).ok_or_else(|| NoPiece(letter.to_string()))?, letters.as_str()),
            None => (Piece::Literal(b"%".to_vec()), parts.next().ok_or_else(|| NoPiece(String::new()))?),
        };
        pieces.extend([piece, literal(rest)]);
    }
    pieces.retain(|piece| *piece != Piece::Literal(Vec::new()));
    Ok(Format(pieces))
}

fn literal(text: &str) -> Piece {
    Piece::Literal(unescape(text))
}

const fn piece(letter: char) -> Option<Piece> {
    Some(match letter {
        't' => Piece::Topic,
        'p' => Piece::Partition,
        'o' => Piece::Offset,
        'k' => Piece::Key,
        'K' => Piece::KeyBytes,
        's' => Piece::Value,
        'S' => Piece::ValueBytes,
        'R' => Piece::ValueBytesBinary,
        'T' => Piece::Timestamp,
        'h' => Piece::Headers,
        _ => return None,
    })
}

impl Format {
    pub(super) fn print(
        &self,
        topic: &str,
        partition: PartitionIndex,
        record: &ConsumedRecord<'_>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Literal(bytes) => out.write_all(bytes),
            Piece::Topic => out.write_all(topic.as_bytes()),
            Piece::Partition => write!(out, "{partition}"),
            Piece::Offset => write!(out, "{}", record.offset),
            Piece::Key => out.write_all(record.key.unwrap_or_default()),
            Piece::KeyBytes => write!(out, "{}", length(record.key)),
            Piece::Value => out.write_all(record.value.unwrap_or_default()),
            Piece::ValueBytes => write!(out, "{}", length(record.value)),
            Piece::ValueBytesBinary => out.write_all(&length(record.value).to_be_bytes()),
            Piece::Timestamp => write!(out, "{}", record.timestamp.0),
            Piece::Headers => print_headers(record, out),
        })
    }
}

/// -1 where it is null.
fn length(bytes: Option<&[u8]>) -> i32 {
    bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).expect("a record's lengths fit 32 bits"))
}

fn print_headers(record: &ConsumedRecord<'_>, out: &mut impl Write) -> io::Result<()> {
    for (index, header) in record.headers.enumerate() {
        out.write_all(if index == 0 { b"" } else { b"," })?;
        out.write_all(header.key)?;
        out.write_all(b"=")?;
        out.write_all(header.value.unwrap_or(b"NULL"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine_record::{Offset, Timestamp};

    use super::*;

    fn printed(format: &str, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
        let (offset, timestamp) = (Offset::new(17).unwrap(), Timestamp(5));
        let record = ConsumedRecord { offset, timestamp, key, value, headers: Default::default() };
        let mut out = Vec::new();
        parse(format).unwrap().print("orders", PartitionIndex(3), &record, &mut out).unwrap();
        out
    }

    #[test]
    fn each_letter_is_a_part_of_the_record() {
        let all = printed("%t [%p] %o %T:%k(%K) %s(%S)%h%%\\n", Some(b"k"), Some(b"value"));
        assert_eq!(all, b"orders [3] 17 5:k(1) value(5)%\n");
        assert_eq!(printed("%R", None, Some(b"abc")), [0, 0, 0, 3]);
        assert_eq!(printed("%R%K%S", None, None), b"\xff\xff\xff\xff-1-1");
        assert_eq!(printed("%K|%S|%k%s", Some(b""), Some(b"")), b"0|0|");
        assert_eq!(printed("%%s%%%s\\0", None, Some(b"v")), b"%s%v\0");
        assert_eq!(printed("", None, Some(b"v")), b"");
    }

    #[test]
    fn another_letter_is_refused_with_those_there_are() {
        for (format, shown) in
            [("%q", "`%q` is"), ("a%", "`%` is"), ("%%%", "`%` is"), ("%s%\u{e4}", "`%\u{e4}` is")]
        {
            let refused = parse(format).unwrap_err().to_string();
            assert!(refused.starts_with(shown) && refused.contains("%t topic"), "{refused}");
        }
    }
}

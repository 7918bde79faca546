//! Properties files as Java reads them: `java.util.Properties.load`, byte for byte.
//!
//! A *natural* line ends at a line feed, a carriage return or both. One that ends with an odd number of backslashes goes on
//! in the next, whose blanks at the front don't count. The bytes are ISO 8859-1; other characters are written as `\uXXXX`,
//! in two of them where UTF-16 has two units.

use std::iter::Peekable;
use std::slice::Iter;

/// A key with its value, and the number of the natural line on which it begins, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

/// What Java refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: a \\u is followed by something else than four hexadecimal digits; write \\\\u for a backslash and a u"
)]
pub(super) struct Malformed {
    line: usize,
}

/// Reads all properties, in the order of the file; a key may stand there again.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Property>, Malformed> {
    let mut lines = Lines { bytes: bytes.iter().peekable(), line: 1 };
    let mut all = Vec::new();
    while let Some((line, text)) = lines.next_logical() {
        let (key, value) = split(&text);
        let malformed = |()| Malformed { line };
        let (key, value) = (unescape(key).map_err(malformed)?, unescape(value).map_err(malformed)?);
        all.push(Property { line, key, value });
    }
    Ok(all)
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

struct Lines<'a> {
    bytes: Peekable<Iter<'a, u8>>,
    /// The number of the natural line that comes next.
    line: usize,
}

impl Lines<'_> {
    /// The next line that is neither blank nor a comment, with those it goes on in, and where it begins.
    fn next_logical(&mut self) -> Option<(usize, Vec<u8>)> {
        loop {
            let line = self.line;
            let mut text = self.next_natural()?;
            // What follows a lone backslash begins anew.
            if matches!(*text, [] | [b'\\'] | [b'#' | b'!', ..]) {
                continue;
            }
            while ends_open(&text) {
                text.pop();
                let Some(more) = self.next_natural() else { break };
                text.extend(more);
            }
            return Some((line, text));
        }
    }

    /// The next line without the blanks at its front.
    fn next_natural(&mut self) -> Option<Vec<u8>> {
        self.bytes.peek()?;
        self.line += 1;
        let mut text = Vec::new();
        while let Some(&byte) = self.bytes.next() {
            match byte {
                b'\n' => break,
                b'\r' => {
                    self.bytes.next_if(|next| **next == b'\n');
                    break;
                }
                blank if is_blank(blank) && text.is_empty() => {}
                other => text.push(other),
            }
        }
        Some(text)
    }
}

/// Whether the last backslash isn't itself behind one.
fn ends_open(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// A key ends at the first blank, `=` or `:` that isn't behind a backslash; blanks and one such sign are between it and the
/// value.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let mut is_escaped = false;
    let ends = |byte: &u8| {
        let ends = !is_escaped && (is_blank(*byte) || matches!(byte, b'=' | b':'));
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    };
    let end = text.iter().position(ends).unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    let rest = without_blanks(rest);
    let rest = rest.strip_prefix(b"=").or_else(|| rest.strip_prefix(b":")).unwrap_or(rest);
    (key, without_blanks(rest))
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let first = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    &text[first..]
}

fn unescape(text: &[u8]) -> Result<String, ()> {
    let mut units = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' {
            units.push(u16::from(byte));
            continue;
        }
        units.push(match bytes.next() {
            None => break,
            Some(b't') => u16::from(b'\t'),
            Some(b'n') => u16::from(b'\n'),
            Some(b'r') => u16::from(b'\r'),
            Some(b'f') => 0x0c,
            Some(b'u') => {
                let unit;
                (unit, bytes) = four_digits(bytes.as_slice())?;
                unit
            }
            Some(&other) => u16::from(other),
        });
    }
    // Half a character, which Java keeps, is none here.
    Ok(String::from_utf16_lossy(&units))
}

fn four_digits(text: &[u8]) -> Result<(u16, Iter<'_, u8>), ()> {
    let (digits, rest) = text.split_at_checked(4).ok_or(())?;
    let mut digits = digits.iter().map(|digit| char::from(*digit).to_digit(16).ok_or(()));
    let unit = digits.try_fold(0, |unit, digit| Ok(unit << 4 | digit?))?;
    Ok((u16::try_from(unit).map_err(drop)?, rest.iter()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &[u8]) -> Vec<(usize, String, String)> {
        let all = parse(text).unwrap().into_iter();
        all.map(|Property { line, key, value }| (line, key, value)).collect()
    }

    fn pair(text: &[u8]) -> (String, String) {
        let all = pairs(text);
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0].1.clone(), all[0].2.clone())
    }

    fn owned(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn a_key_is_divided_from_its_value_by_a_sign_or_a_blank() {
        for text in ["k=v", "k:v", "k v", "k\tv", "k\x0cv", "  k = v", "k : v", "k   v", "k \t=\t v"] {
            assert_eq!(pair(text.as_bytes()), owned("k", "v"), "{text:?}");
        }
        assert_eq!(pair(b"k==v"), owned("k", "=v"), "one sign is taken");
        assert_eq!(pair(b"k = :v"), owned("k", ":v"));
        assert_eq!(pair(b"k=v w "), owned("k", "v w "), "blanks behind the value are its own");
        assert_eq!(pair(b"k"), owned("k", ""));
        assert_eq!(pair(b"=v"), owned("", "v"));
        assert_eq!(pair(b"a\\=b\\:c\\ d=v"), owned("a=b:c d", "v"));
    }

    #[test]
    fn comments_and_blank_lines_are_none_and_comments_do_not_go_on() {
        let text = b"# one \\\n! two\n\n \t \n  #three\na=1\r\nb=2\rc=3";
        let expected = [(6, "a", "1"), (7, "b", "2"), (8, "c", "3")];
        assert_eq!(pairs(text), expected.map(|(line, key, value)| (line, key.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_line_goes_on_behind_an_odd_number_of_backslashes() {
        assert_eq!(pair(b"k=a,\\\n   b,\\\r\n\tc"), owned("k", "a,b,c"));
        assert_eq!(pairs(b"k=a\\\\\nb=c").len(), 2, "an even number is backslashes");
        assert_eq!(pair(b"k=a\\\n# no comment"), owned("k", "a# no comment"));
        assert_eq!(pair(b"k=a\\\n\n"), owned("k", "a"), "a blank line ends it");
        assert_eq!(pair(b"k=a\\"), owned("k", "a"), "the file's end does");
        assert_eq!(pairs(b"\\\n\\\n"), []);
        assert_eq!(pairs(b"\\\n# a comment\nk=v")[0].1, "k");
        assert_eq!(pairs(b"k=a\\\nb\nx=y")[1].0, 3, "lines are counted as an editor does");
    }

    #[test]
    fn escapes_are_single_letters_or_utf_16() {
        assert_eq!(pair(b"k=\\t\\n\\r\\f\\\\\\q\\\"").1, "\t\n\r\x0c\\q\"");
        assert_eq!(pair(b"\\u006b=\\u00e4\\uD83D\\uDE00").1, "\u{e4}\u{1f600}");
        assert_eq!(pair(b"k=\xe4").1, "\u{e4}", "bytes are ISO 8859-1");
        for wrong in [&b"a=1\nk=\\u12"[..], b"a=1\nk=\\u12g4", b"a=1\n\\u=1", b"a=1\nk=\\U0041\\u+041"] {
            assert_eq!(parse(wrong), Err(Malformed { line: 2 }), "{wrong:?}");
        }
    }

    /// As Java's `store` writes.
    fn escaped(text: &str) -> String {
        let unit = |unit: u16| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            Ok(_) | Err(_) => format!("\\u{unit:04X}"),
        };
        text.encode_utf16().map(unit).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(all in proptest::collection::vec((".*", ".*"), 0..8)) {
            let lines: Vec<_> = all.iter().map(|(key, value)| format!("{}={}", escaped(key), escaped(value))).collect();
            let read = parse(lines.join("\n").as_bytes()).unwrap();
            let read: Vec<_> = read.into_iter().map(|Property { key, value, .. }| (key, value)).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn no_bytes_are_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn no_signs_are_too_much(text in "[ \\t\\f\\r\\n=:#!\\\\ua0]{0,40}") {
            let _ = parse(text.as_bytes());
        }
    }
}

//! Backslashes on the command line: `\n`, `\t`, `\r`, `\0`, `\xHH` and numbers stand for a byte, as in kcat.

/// The bytes that a text stands for. A backslash in front of any other sign is that sign, one at the end is itself.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match (byte, rest.split_first()) {
            (b'\\', Some((&sign, behind))) => {
                let (byte, behind) = escape(sign, behind);
                bytes.push(byte);
                rest = behind;
            }
            (other, _) => bytes.push(other),
        }
    }
    bytes
}

/// The byte for what stands behind a backslash, and what follows.
fn escape(sign: u8, behind: &[u8]) -> (u8, &[u8]) {
    match sign {
        b'n' => (b'\n', behind),
        b't' => (b'\t', behind),
        b'r' => (b'\r', behind),
        b'x' => number(behind, 16, 2).unwrap_or((b'x', behind)),
        // As in C: octal behind a zero, else decimal.
        b'0' => number(behind, 8, 3).unwrap_or((0, behind)),
        b'1'..=b'9' => {
            let (value, behind) = (u32::from(sign - b'0'), behind);
            let (value, behind) = digits(behind, 10, 2, value);
            (low_byte(value), behind)
        }
        other => (other, behind),
    }
}

/// A number of one to `count` digits.
fn number(text: &[u8], radix: u32, count: usize) -> Option<(u8, &[u8])> {
    let (value, behind) = digits(text, radix, count, 0);
    (behind.len() < text.len()).then(|| (low_byte(value), behind))
}

fn digits(text: &[u8], radix: u32, count: usize, first: u32) -> (u32, &[u8]) {
    let digit = |byte: &u8| char::from(*byte).to_digit(radix);
    let digits: Vec<_> = text.iter().take(count).map_while(digit).collect();
    let value = digits.iter().fold(first, |value, digit| value * radix + digit);
    (value, &text[digits.len()..])
}

fn low_byte(value: u32) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_stands_for_a_byte() {
        for (text, bytes) in [
            ("a\\tb\\n\\r", &b"a\tb\n\r"[..]),
            ("\\0", b"\0"),
            ("\\x41\\x4a4\\xff", b"AJ4\xff"),
            ("\\x4", b"\x04"),
            ("\\65\\0101\\7x", b"AA\x07x"),
            ("\\\\n\\q", b"\\nq"),
            ("\\xg", b"xg"),
            ("end\\", b"end\\"),
            ("\u{e4}", "\u{e4}".as_bytes()),
            ("", b""),
        ] {
            assert_eq!(unescape(text), bytes, "{text}");
        }
    }
}

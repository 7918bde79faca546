//! Primitives one by one.

use proptest::prelude::*;

use super::family::config;
use crate::error::{DecodeError, EncodeError, Place};
use crate::reader::Reader;
use crate::writer::Writer;

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes));
    bytes
}

fn at(position: usize) -> Place {
    Place { position, field: "" }
}

#[test]
fn varints_have_the_documented_bytes() {
    for (value, bytes) in [
        (0, &[0x00][..]),
        (127, &[0x7f]),
        (128, &[0x80, 0x01]),
        (16_383, &[0xff, 0x7f]),
        (u32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
    ] {
        assert_eq!(written(|writer| writer.uvarint(value)), bytes);
        assert_eq!(Reader::new(bytes).uvarint(), Ok(value));
    }
    for (value, bytes) in [(0, &[0x00][..]), (-1, &[0x01]), (1, &[0x02]), (-65, &[0x81, 0x01])] {
        assert_eq!(written(|writer| writer.varint(value)), bytes);
        assert_eq!(Reader::new(bytes).varint(), Ok(value));
    }
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn varints_come_back(a: u32, b: i32, c: u64, d: i64, shift in 0_u32..64) {
        let (c, d) = (c >> shift, d >> shift);
        let bytes = written(|writer| {
            writer.uvarint(a);
            writer.varint(b);
            writer.uvarlong(c);
            writer.varlong(d);
        });
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!((reader.uvarint(), reader.varint()), (Ok(a), Ok(b)));
        prop_assert_eq!((reader.uvarlong(), reader.varlong()), (Ok(c), Ok(d)));
        prop_assert_eq!(reader.finish(), Ok(()));
    }
}

#[test]
fn varints_that_go_on_for_too_long_are_refused() {
    let too_long = Err(DecodeError::VarintTooLong { at: at(0) });
    assert_eq!(Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).uvarint(), too_long);
    assert_eq!(Reader::new(&[0x80; 11]).uvarlong(), Err(DecodeError::VarintTooLong { at: at(0) }));
}

#[test]
fn varints_with_more_bits_than_their_type_are_refused() {
    let too_long = Err(DecodeError::VarintTooLong { at: at(0) });
    assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).uvarint(), too_long);
    let mut bytes = [0xff; 10];
    bytes[9] = 0x01;
    assert_eq!(Reader::new(&bytes).uvarlong(), Ok(u64::MAX));
    bytes[9] = 0x02;
    assert_eq!(Reader::new(&bytes).uvarlong(), Err(DecodeError::VarintTooLong { at: at(0) }));
}

#[test]
fn padded_varints_are_read_as_others_read_them() {
    assert_eq!(Reader::new(&[0x85, 0x80, 0x00]).uvarint(), Ok(5));
}

#[test]
fn a_varint_cut_short_is_truncated() {
    let truncated = DecodeError::Truncated { at: at(1), needed: 1, remaining: 0 };
    assert_eq!(Reader::new(&[0x80]).uvarint(), Err(truncated));
}

#[test]
fn numbers_are_big_endian_and_come_back() {
    let bytes = written(|writer| {
        writer.bool(true);
        writer.i8(-2);
        writer.i16(0x0102);
        writer.u16(0xfffe);
        writer.i32(-3);
        writer.i64(i64::MIN);
        writer.f64(1.5);
    });
    assert_eq!(bytes[..6], [1, 0xfe, 1, 2, 0xff, 0xfe]);
    let mut reader = Reader::new(&bytes);
    assert_eq!((reader.bool(), reader.i8(), reader.i16()), (Ok(true), Ok(-2), Ok(0x0102)));
    assert_eq!((reader.u16(), reader.i32(), reader.i64()), (Ok(0xfffe), Ok(-3), Ok(i64::MIN)));
    assert_eq!(reader.f64(), Ok(1.5));
    assert_eq!(reader.i8(), Err(DecodeError::Truncated { at: at(26), needed: 1, remaining: 0 }));
}

#[test]
fn null_and_empty_are_told_apart() {
    assert_eq!(Reader::new(&[0xff, 0xff]).nullable_string(), Ok(None));
    assert_eq!(Reader::new(&[0, 0]).nullable_string(), Ok(Some("")));
    assert_eq!(Reader::new(&[0]).compact_nullable_string(), Ok(None));
    assert_eq!(Reader::new(&[1]).compact_nullable_string(), Ok(Some("")));
    assert_eq!(Reader::new(&[0xff; 4]).nullable_bytes(), Ok(None));
    assert_eq!(Reader::new(&[0; 4]).nullable_bytes(), Ok(Some(&[][..])));
    assert_eq!(Reader::new(&[0]).compact_nullable_bytes(), Ok(None));
    assert_eq!(Reader::new(&[1]).compact_nullable_bytes(), Ok(Some(&[][..])));
    assert_eq!(Reader::new(&[0xff; 4]).array_count(1), Ok(None));
    assert_eq!(Reader::new(&[0]).compact_array_count(1), Ok(None));
}

#[test]
fn null_is_refused_where_a_value_must_be() {
    let refused = DecodeError::NullNotAllowed { at: at(0) };
    assert_eq!(Reader::new(&[0xff, 0xff]).string(), Err(refused));
    assert_eq!(Reader::new(&[0]).compact_string(), Err(refused));
    assert_eq!(Reader::new(&[0xff; 4]).bytes(), Err(refused));
    assert_eq!(Reader::new(&[0]).compact_bytes(), Err(refused));
}

#[test]
fn lengths_below_minus_one_are_refused() {
    let negative = |length| DecodeError::NegativeLength { at: at(0), length };
    assert_eq!(Reader::new(&[0xff, 0xfe]).nullable_string(), Err(negative(-2)));
    assert_eq!(Reader::new(&[0x80, 0, 0, 0]).nullable_bytes(), Err(negative(i32::MIN)));
    assert_eq!(Reader::new(&[0x80, 0, 0, 0]).array_count(1), Err(negative(i32::MIN)));
}

#[test]
fn strings_must_be_utf8() {
    let invalid = |position| DecodeError::InvalidUtf8 { at: at(position) };
    assert_eq!(Reader::new(&[0, 2, 0xc3, 0x28]).string(), Err(invalid(2)));
    assert_eq!(Reader::new(&[2, 0xff]).compact_string(), Err(invalid(1)));
}

#[test]
fn a_count_is_refused_when_its_elements_cannot_follow() {
    let mut reader = Reader::new(&[0, 0, 0, 3, 1, 2, 3, 4, 5]);
    assert_eq!(reader.clone().array_count(1), Ok(Some(3)));
    let refused = DecodeError::CountTooLarge { at: at(0), count: 3, possible: 2 };
    assert_eq!(reader.array_count(2), Err(refused));
    let refused = DecodeError::CountTooLarge { at: at(0), count: u32::MAX - 1, possible: 0 };
    assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).compact_array_count(0), Err(refused));
}

#[test]
fn tagged_fields_are_walked_in_order() {
    let bytes = written(|writer| {
        writer.uvarint(2);
        writer.tagged_field(0, |writer| writer.compact_nullable_string(Some("x"))).unwrap();
        writer
            .tagged_field(10_000, |writer| {
                writer.raw(&[7; 300]);
                Ok(())
            })
            .unwrap();
    });
    let mut reader = Reader::new(&bytes);
    let mut fields = reader.tagged_fields().unwrap();
    let (tag, mut body) = fields.next(&mut reader).unwrap().unwrap();
    assert_eq!((tag, body.compact_string(), body.finish()), (0, Ok("x"), Ok(())));
    let (tag, body) = fields.next(&mut reader).unwrap().unwrap();
    assert_eq!((tag, body.rest()), (10_000, &[7; 300][..]));
    assert_eq!(body.position() + body.remaining(), bytes.len());
    assert!(fields.next(&mut reader).unwrap().is_none());
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn tags_out_of_order_or_twice_are_refused() {
    let refused = |position, tag| Err(DecodeError::TagOrder { at: at(position), tag });
    assert_eq!(Reader::new(&[2, 1, 0, 0, 0]).skip_tagged_fields(), refused(3, 0));
    assert_eq!(Reader::new(&[2, 1, 0, 1, 0]).skip_tagged_fields(), refused(3, 1));
    assert_eq!(Reader::new(&[2, 1, 0, 2, 0]).skip_tagged_fields(), Ok(()));
}

#[test]
fn a_tagged_field_larger_than_what_is_left_is_refused() {
    let truncated = DecodeError::Truncated { at: at(3), needed: 5, remaining: 1 };
    assert_eq!(Reader::new(&[1, 0, 5, 9]).skip_tagged_fields(), Err(truncated));
}

#[test]
fn strings_too_long_for_their_length_are_not_written() {
    let text = "x".repeat(0x8000);
    let mut bytes = vec![1, 2];
    let mut writer = Writer::new(&mut bytes);
    let too_long = EncodeError::TooLong { length: 0x8000, limit: 0x7fff };
    assert_eq!(writer.nullable_string(Some(&text)), Err(too_long));
    assert_eq!(writer.nullable_string(Some(&text[1..])), Ok(()));
    assert_eq!(bytes.len(), 2 + 2 + 0x7fff);
}

#[test]
fn errors_say_where() {
    let error = Reader::new(&[0, 9, 1]).string().unwrap_err();
    assert_eq!(error.to_string(), "byte 2: 9 bytes are needed, 1 remain");
    assert_eq!(error.within("client_id").to_string(), "byte 2 (client_id): 9 bytes are needed, 1 remain");
    assert_eq!(error.within("inner").within("outer"), error.within("inner"));
}

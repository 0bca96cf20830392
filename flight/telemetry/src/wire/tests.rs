use super::{Fault, Field, Fields, Value, put_bytes, put_number, put_varint};

fn only(bytes: &[u8]) -> Result<Field<'_>, Fault> {
    Fields::of(bytes).next().map(Option::unwrap)
}

#[test]
fn varints_of_every_length() {
    for shift in 0..64 {
        for value in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, 3, value);
            assert_eq!(only(&bytes).unwrap().varint(), Ok(value));
            for end in 1..bytes.len() {
                assert_eq!(only(&bytes[..end]).unwrap_err(), Fault::Truncated);
            }
        }
    }
    let mut long = vec![0x08];
    long.extend([0x80; 9]);
    long.push(2);
    assert_eq!(only(&long).unwrap_err(), Fault::Varint);
}

#[test]
fn keys_that_no_field_has() {
    for key in [0, 2, 3, 8 | 3, 8 | 4, 8 | 6, 8 | 7, 1 << 32, u64::MAX] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, key);
        bytes.push(0);
        assert_eq!(only(&bytes).unwrap_err(), Fault::Key(key));
    }
}

#[test]
fn values_and_their_types() {
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, 2, b"ab");
    bytes.extend(b"\x19\x01\x00\x00\x00\x00\x00\x00\x00\x25\x02\x00\x00\x00");
    let mut fields = Fields::of(&bytes);
    let field = fields.next().unwrap().unwrap();
    assert_eq!((field.number, field.bytes()), (2, Ok(&b"ab"[..])));
    assert_eq!(field.varint(), Err(Fault::Type(2)));
    let field = fields.next().unwrap().unwrap();
    assert_eq!((field.number, field.fixed64(), field.bytes()), (3, Ok(1), Err(Fault::Type(3))));
    let field = fields.next().unwrap().unwrap();
    assert_eq!((field.number, field.fixed32(), field.fixed64()), (4, Ok(2), Err(Fault::Type(4))));
    assert!(fields.next().unwrap().is_none());
    assert_eq!(only(b"\x0a\x03ab").unwrap_err(), Fault::Length { said: 3, left: 2 });
    assert_eq!(only(b"\x09\x00").unwrap_err(), Fault::Truncated);
}

#[test]
fn repeated_numbers() {
    let mut numbers = Vec::new();
    let packed = [7_u64.to_le_bytes(), 8_u64.to_le_bytes()].concat();
    let field = |value| Field { number: 6, value };
    field(Value::Bytes(&packed)).fixed64s(&mut numbers).unwrap();
    field(Value::Fixed64(9)).fixed64s(&mut numbers).unwrap();
    assert_eq!(numbers, [7, 8, 9]);
    assert_eq!(field(Value::Bytes(&packed[1..])).fixed64s(&mut numbers), Err(Fault::Truncated));
    assert_eq!(field(Value::Varint(1)).fixed64s(&mut numbers), Err(Fault::Type(6)));
}

use super::*;

#[test]
fn buffers_are_aligned_and_cut() {
    for len in [0, 1, 63, 64, 5000] {
        let mut buffer = AlignedBuffer::zeroed(len);
        assert_eq!(buffer.as_mut().len(), len);
        buffer.truncate(len / 2);
        let bytes = buffer.freeze();
        assert_eq!((bytes.len(), bytes.as_ptr().align_offset(64)), (len / 2, 0));
    }
}

#[test]
fn the_last_byte_that_is_not_zero_is_found() {
    for len in [0, 1, 4095, 4096, 4097, 10_000] {
        let mut bytes = vec![0; len];
        assert!(is_zero(&bytes));
        assert_eq!(used_len(&bytes), 0);
        for at in (0..len).step_by(501) {
            bytes[at] = 1;
            assert_eq!(used_len(&bytes), at + 1);
            assert!(!is_zero(&bytes));
        }
    }
}

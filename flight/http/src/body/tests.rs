use std::io::Write as _;

use bytes::Bytes;
use stratalog_model::ErrorKind;

use super::{BoundedOutput, ContentCoding, Decoder, Zstd};

const MOST: usize = 1 << 20;

/// A constructor of a decoder, and compressed input for the decoder.
type Pack = (fn() -> Decoder, Vec<u8>);

fn output() -> BoundedOutput {
    BoundedOutput { bytes: Vec::new(), left: MOST }
}

fn gzip() -> Decoder {
    Decoder::new(ContentCoding::Gzip(flate2::write::MultiGzDecoder::new(output())), MOST)
}

fn zstd() -> Decoder {
    Decoder::new(ContentCoding::Zstd(Zstd::new(output()).unwrap()), MOST)
}

fn read(mut decoder: Decoder, packed: &[u8], piece: usize) -> stratalog_model::Result<Vec<u8>> {
    let mut all = Vec::new();
    for piece in packed.chunks(piece) {
        decoder.input = Bytes::copy_from_slice(piece);
        while decoder.has_more() {
            all.extend_from_slice(&decoder.next()?);
        }
    }
    all.extend_from_slice(&decoder.finish()?);
    Ok(all)
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn pieces_of_any_size_come_to_the_same_and_frames_follow_each_other() {
    let text: Vec<u8> = (0..200_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    let twice = [text.clone(), b"more".to_vec()].concat();
    let gz = [gzipped(&text), gzipped(b"more")].concat();
    let zst = [zstd::encode_all(&text[..], 1).unwrap(), zstd::encode_all(&b"more"[..], 1).unwrap()]
        .concat();
    let packs: [Pack; 2] = [(gzip, gz), (zstd, zst)];
    for (decoder, packed) in packs {
        for piece in [7, 1000, packed.len()] {
            assert!(read(decoder(), &packed, piece).unwrap() == twice, "pieces of {piece}");
        }
    }
}

#[test]
fn what_is_cut_off_or_damaged_is_an_error() {
    let text = b"cpu usage=1 1\n".repeat(1000);
    let packs: [Pack; 2] =
        [(gzip, gzipped(&text)), (zstd, zstd::encode_all(&text[..], 1).unwrap())];
    for (decoder, packed) in packs {
        for cut in 1..packed.len() {
            let error = read(decoder(), &packed[..cut], 64).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidBinaryRepresentation, "cut at {cut}");
        }
        assert!(read(decoder(), b"cpu usage=1 1\n", 64).is_err());
    }
}

#[test]
fn bombs_end_at_the_limit() {
    let zeros = vec![0; 64 << 20];
    let packs: [Pack; 2] =
        [(gzip, gzipped(&zeros)), (zstd, zstd::encode_all(&zeros[..], 1).unwrap())];
    for (decoder, packed) in packs {
        let error = read(decoder(), &packed, 64 << 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }
}

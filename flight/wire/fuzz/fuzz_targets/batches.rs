//! Damaged messages of Arrow IPC: every decoded result must be complete and within the limits.
//!
//! An input is either a list of messages, each with the lengths of its header and body before it,
//! or a list of changes to valid messages. The first byte selects the form.

#![no_main]

use std::sync::{Arc, OnceLock};

use arrow::{
    array::*,
    buffer::{BooleanBuffer, NullBuffer, OffsetBuffer},
    datatypes::*,
    ipc::{CompressionType, writer::IpcWriteOptions},
};
use arrow_flight::{
    FlightData,
    encode::{DictionaryHandling, FlightDataEncoderBuilder},
};
use futures::{StreamExt as _, TryStreamExt as _, executor::block_on, stream};
use libfuzzer_sys::fuzz_target;
use stratalog_flight_wire::{BatchLimits, Batches};
use stratalog_model::ErrorKind;

const LIMITS: BatchLimits = BatchLimits { rows_max: 5_000, expanded_bytes_max: 1 << 20 };

fuzz_target!(|input: &[u8]| {
    let [what, rest @ ..] = input else { return };
    let messages = match what.checked_sub(128) {
        None => written(rest),
        Some(base) => bent(usize::from(base), rest),
    };
    block_on(read(messages));
});

/// The messages of the input.
fn written(mut input: &[u8]) -> Vec<FlightData> {
    let mut messages = Vec::new();
    while let [a, b, c, d, rest @ ..] = input {
        let (header, rest) = taken(rest, u16::from_le_bytes([*a, *b]));
        let (body, rest) = taken(rest, u16::from_le_bytes([*c, *d]));
        messages.push(FlightData::new().with_data_header(header).with_data_body(body));
        input = rest;
    }
    messages
}

fn taken(bytes: &[u8], count: u16) -> (Vec<u8>, &[u8]) {
    let (taken, rest) = bytes.split_at(usize::from(count).min(bytes.len()));
    (taken.to_vec(), rest)
}

/// Valid messages with changed words of eight bytes or changed single bytes.
fn bent(base: usize, input: &[u8]) -> Vec<FlightData> {
    let all = bases();
    let mut messages = all[base % all.len()].clone();
    let mut rest = input;
    while let [place, at, more, value, others @ ..] = rest {
        let count = messages.len();
        let message = &mut messages[usize::from(place >> 2) % count];
        let bytes = if place & 1 == 0 { &mut message.data_header } else { &mut message.data_body };
        let mut changed = bytes.to_vec();
        let at = usize::from(u16::from_le_bytes([*at, *more])) % changed.len().max(1);
        let wide = place & 2 != 0 && others.len() >= 7;
        let (new, left): (Vec<u8>, &[u8]) = match wide {
            true => ([&[*value], &others[..7]].concat(), &others[7..]),
            false => (vec![*value], others),
        };
        for (old, new) in changed.iter_mut().skip(at).zip(new) {
            *old = new;
        }
        *bytes = changed.into();
        rest = left;
    }
    messages
}

async fn read(messages: Vec<FlightData>) {
    let mut batches = Batches::new(stream::iter(messages.into_iter().map(Ok)), LIMITS);
    match batches.schema().await {
        Ok(Some(_)) => {}
        Ok(None) => return,
        Err(error) => return known(error.kind()),
    }
    while let Some(arrived) = batches.next().await {
        match arrived {
            Err(error) => return known(error.kind()),
            Ok(arrived) => {
                assert!(arrived.batch.num_rows() as u64 <= LIMITS.rows_max);
                for column in arrived.batch.columns() {
                    column.to_data().validate_full().expect("what was let through is whole");
                }
            }
        }
    }
}

fn known(kind: ErrorKind) {
    let kinds = [
        ErrorKind::InvalidBinaryRepresentation,
        ErrorKind::LimitExceeded,
        ErrorKind::FeatureNotSupported,
    ];
    assert!(kinds.contains(&kind), "{kind:?}");
}

/// Batches of all types in their wire form: plain, and compressed.
fn bases() -> &'static [Vec<FlightData>] {
    static BASES: OnceLock<Vec<Vec<FlightData>>> = OnceLock::new();
    BASES.get_or_init(|| {
        let codecs = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
        let mut all = Vec::new();
        for columns in [plain(), texts(), nested(), rare()] {
            for codec in codecs {
                let batch = RecordBatch::try_from_iter_with_nullable(columns.clone()).unwrap();
                let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
                let encoded = FlightDataEncoderBuilder::new()
                    .with_options(options)
                    .with_dictionary_handling(DictionaryHandling::Resend)
                    .build(stream::iter([Ok(batch.clone()), Ok(batch)]));
                all.push(block_on(encoded.boxed().try_collect()).unwrap());
            }
        }
        all
    })
}

type Columns = Vec<(String, ArrayRef, bool)>;

fn named(columns: Vec<ArrayRef>) -> Columns {
    let name = |(at, column)| (format!("c{at}"), column, true);
    columns.into_iter().enumerate().map(name).collect()
}

fn plain() -> Columns {
    named(vec![
        Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3, 4]).with_timezone("UTC")),
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3), None])),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])),
        Arc::new(Decimal128Array::from(vec![1, 2, 3, 4])),
        Arc::new(NullArray::new(4)),
        Arc::new(Float64Array::from(vec![0.5; 4])),
    ])
}

fn texts() -> Columns {
    let dictionary: DictionaryArray<Int8Type> =
        [Some("a"), None, Some("long enough to be compressed, long enough"), Some("a")]
            .into_iter()
            .collect();
    let long = "more than twelve bytes are elsewhere";
    named(vec![
        Arc::new(StringArray::from(vec![Some("a"), None, Some(long), Some("")])),
        Arc::new(LargeStringArray::from(vec![Some("a"), None, Some(long), Some("")])),
        Arc::new(StringViewArray::from(vec![Some("a"), None, Some(long), Some("")])),
        Arc::new(BinaryArray::from(vec![Some(&b"a"[..]), None, Some(b"\xff"), Some(b"")])),
        Arc::new(dictionary),
    ])
}

fn nested() -> Columns {
    let items = || Arc::new(Int16Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let field = Arc::new(Field::new("item", DataType::Int16, true));
    let offsets = || OffsetBuffer::<i32>::from_lengths([1, 0, 2, 1]);
    let nulls = Some(NullBuffer::new(BooleanBuffer::from(vec![true, false, true, true])));
    let lists = ListArray::new(Arc::clone(&field), offsets(), items(), nulls.clone());
    let fixed = FixedSizeListArray::new(Arc::clone(&field), 1, items(), nulls.clone());
    let structs = StructArray::new(vec![field].into(), vec![items()], nulls);
    named(vec![Arc::new(lists), Arc::new(fixed), Arc::new(structs)])
}

fn rare() -> Columns {
    let ends = Int32Array::from(vec![1, 4]);
    let runs = RunArray::try_new(&ends, &StringArray::from(vec!["a", "b"])).unwrap();
    let views = ListViewArray::new(
        Arc::new(Field::new("item", DataType::Int8, true)),
        vec![0_i32, 1, 1, 0].into(),
        vec![1_i32, 1, 0, 2].into(),
        Arc::new(Int8Array::from(vec![1, 2])),
        None,
    );
    let bytes = FixedSizeBinaryArray::try_from_iter([[1_u8; 3]; 4].iter()).unwrap();
    named(vec![Arc::new(runs), Arc::new(views), Arc::new(bytes)])
}

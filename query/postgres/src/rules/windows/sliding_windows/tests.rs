use super::*;
use arrow::array::{ArrayRef, Float64Array};
use datafusion::common::ScalarValue;

/// A frame of changing width, sometimes narrow and sometimes wide, gives the same results as a
/// separate aggregation of its values.
#[test]
fn frames_are_aggregated_as_if_alone() {
    let value = |at: usize| match at % 97 {
        13 => None,
        29 => Some(1e17),
        _ => Some(((at * 7_919) % 1_000) as f64),
    };
    let widths = [1_usize, 3, 200, 500, 40, 0, 900, 128, 129, 1_000];
    let mut floats = floats::Floats::new(floats::FloatAggregate::Sum, DataType::Float64);
    let (mut start, mut end) = (0, 0);
    for at in 0..3_000_usize {
        let width = widths.get(at / 300).copied().unwrap_or(0);
        let arrays = |from: usize, to: usize| -> Vec<ArrayRef> {
            vec![Arc::new((from..to).map(value).collect::<Float64Array>())]
        };
        let (to, from) = (at + 1, start.max((at + 1).saturating_sub(width)));
        floats.update_batch(&arrays(end, to)).unwrap();
        floats.retract_batch(&arrays(start, from)).unwrap();
        (start, end) = (from, to);
        let kept: Vec<f64> = (start..end).filter_map(value).collect();
        let ScalarValue::Float64(sum) = floats.evaluate().unwrap() else { unreachable!() };
        match sum {
            None => assert!(kept.is_empty(), "{at}"),
            Some(sum) => {
                let alone: f64 = kept.iter().sum();
                assert!((sum - alone).abs() <= alone.abs() * 1e-12, "{at}: {sum} {alone}");
            }
        }
    }
}

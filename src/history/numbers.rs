//! The values of one series: differences of integers where they are integers, or such with one or two decimals; bits where not.

use super::bytes::{Reader, Writer};
use rdiag_model::recording::Number;

/// Reals with up to so many decimals (load averages have two) are kept as integers.
const SCALES: [f64; 3] = [1.0, 10.0, 100.0];
/// Ways in which values are kept, besides those of [`SCALES`].
const WHOLE: u8 = 100;
const MIXED: u8 = 101;

/// A real as an integer, if that gives it back bit by bit.
fn scaled(value: f64, scale: f64) -> Option<i64> {
    const EXACT: f64 = 9e15;
    let integer = (value * scale).round();
    let back = (integer as i64) as f64 / scale;
    (integer.abs() < EXACT && back.to_bits() == value.to_bits()).then_some(integer as i64)
}

/// Writes values, of which some may be missing.
pub(super) fn write(out: &mut Writer, values: &[Option<Number>]) {
    presence(out, values);
    let given = || values.iter().flatten();
    let fits = |scale: &f64| given().all(|value| matches!(value, Number::Real(x) if scaled(*x, *scale).is_some()));
    if given().all(|value| matches!(value, Number::Whole(_))) {
        out.0.push(WHOLE);
        let mut before = 0;
        for value in given() {
            if let Number::Whole(value) = value {
                out.step(before, *value);
                before = *value;
            }
        }
    } else if let Some(way) = SCALES.iter().position(fits) {
        out.0.push(way as u8);
        let mut before = 0;
        for value in given() {
            let now = scaled(value.as_f64(), SCALES.get(way).copied().unwrap_or(1.0)).unwrap_or(0);
            out.step(before, now.cast_unsigned());
            before = now.cast_unsigned();
        }
    } else {
        out.0.push(MIXED);
        given().for_each(|value| one(out, *value));
    }
}

/// A value by itself.
pub(super) fn one(out: &mut Writer, value: Number) {
    match value {
        Number::Whole(value) => {
            out.0.push(0);
            out.unsigned(value);
        }
        Number::Real(value) => {
            out.0.push(1);
            out.bits(value);
        }
    }
}

/// Reads so many values.
pub(super) fn read(reader: &mut Reader<'_>, samples: usize) -> Option<Vec<Option<Number>>> {
    let mut values = vec![None; samples];
    let mut present = vec![false; samples];
    let (mut at, mut is_there) = (0, true);
    for _ in 0..reader.count(samples + 1)? {
        let length = reader.count(samples - at)?;
        present.get_mut(at..at + length)?.fill(is_there);
        (at, is_there) = (at + length, !is_there);
    }
    let way = reader.byte()?;
    let scale = SCALES.get(usize::from(way)).copied();
    let mut before = 0;
    for (value, _) in values.iter_mut().zip(present).filter(|(_, is_there)| *is_there) {
        *value = Some(match (way, scale) {
            (MIXED, _) => read_one(reader)?,
            (WHOLE, _) => {
                before = reader.step(before)?;
                Number::Whole(before)
            }
            (_, scale) => {
                before = reader.step(before)?;
                Number::Real(before.cast_signed() as f64 / scale?)
            }
        });
    }
    Some(values)
}

/// Reads a value that was written by itself.
pub(super) fn read_one(reader: &mut Reader<'_>) -> Option<Number> {
    match reader.byte()? {
        0 => reader.unsigned().map(Number::Whole),
        1 => reader.bits().filter(|value| is_measured(*value)).map(Number::Real),
        _ => None,
    }
}

/// Whether a value has so few powers of ten, above or below one, that a recording may hold it.
pub(super) fn is_measured(value: f64) -> bool {
    value == 0.0 || (1e-30..=1e30).contains(&value.abs())
}

/// Lengths of runs, in turn of values that are there and that are missing; nothing stands for the missing ones at the end.
fn presence(out: &mut Writer, values: &[Option<Number>]) {
    let mut runs = Vec::new();
    let (mut length, mut is_there) = (0_usize, true);
    for value in values {
        if value.is_some() != is_there {
            runs.push(length);
            (length, is_there) = (0, !is_there);
        }
        length += 1;
    }
    if is_there {
        runs.push(length);
    }
    out.size(runs.len());
    runs.into_iter().for_each(|length| out.size(length));
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn number() -> impl Strategy<Value = Option<Number>> {
        prop_oneof![
            Just(None),
            any::<u64>().prop_map(|n| Some(Number::Whole(n))),
            (0_u64..50).prop_map(|n| Some(Number::Whole(n))),
            any::<f64>().prop_filter("what nothing measures", |x| is_measured(*x)).prop_map(|x| Some(Number::Real(x))),
            (-300_i32..300).prop_map(|n| Some(Number::Real(f64::from(n) / 100.0))),
            Just(Some(Number::Real(-0.0))),
        ]
    }

    proptest! {
        #[test]
        fn values_come_back_bit_by_bit(values in prop::collection::vec(number(), 0..40)) {
            let mut out = Writer::default();
            write(&mut out, &values);
            let read = read(&mut Reader(&out.0), values.len()).unwrap();
            prop_assert_eq!(format!("{read:?}"), format!("{values:?}"));
        }
    }

    #[test]
    fn a_value_that_nothing_measures_is_no_value() {
        for value in [5e-324, -1e31, f64::INFINITY, f64::NAN] {
            let mut out = Writer::default();
            write(&mut out, &[Some(Number::Real(value))]);
            assert_eq!(read(&mut Reader(&out.0), 1), None, "{value}");
        }
    }

    #[test]
    fn a_load_average_takes_a_byte_and_a_constant_counter_too() {
        for values in [vec![Some(Number::Real(0.52)); 100], vec![Some(Number::Whole(3)); 100]] {
            let mut out = Writer::default();
            write(&mut out, &values);
            assert!(out.0.len() < 106, "{}", out.0.len());
        }
    }
}

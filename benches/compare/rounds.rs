//! What several rounds measured, by row.

use crate::error::CompareError;

/// One figure of one row, as every round measured it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    /// The middle one; the mean of the two in the middle of an even number. 0 of none.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
            (Some(below), Some(above)) if sorted.len().is_multiple_of(2) => f64::midpoint(*below, *above),
            (_, Some(middle)) => *middle,
            (_, None) => 0.0,
        }
    }

    /// The least and the greatest; zeros of none.
    pub(crate) fn range(&self) -> (f64, f64) {
        let least = self.0.iter().copied().reduce(f64::min);
        (least.unwrap_or(0.0), self.0.iter().copied().reduce(f64::max).unwrap_or(0.0))
    }
}

/// Measures each of `rows` once a round, in turn; every second round backwards, so that no row always comes after the
/// same one. A measurement gives `N` figures, which are kept apart.
pub(crate) fn in_turn<R, const N: usize>(
    rounds: u32,
    rows: &[R],
    mut measure: impl FnMut(&R) -> Result<[f64; N], CompareError>,
) -> Result<Vec<[Figures; N]>, CompareError> {
    let mut measured: Vec<[Figures; N]> = rows.iter().map(|_| [const { Figures(Vec::new()) }; N]).collect();
    for round in 0..rounds {
        let there = 0..rows.len();
        let turn: Vec<usize> = if round % 2 == 0 { there.collect() } else { there.rev().collect() };
        for row in turn {
            let now = measure(&rows[row])?;
            measured[row].iter_mut().zip(now).for_each(|(figures, figure)| figures.0.push(figure));
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_two() {
        assert_eq!(Figures(vec![9.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Figures(vec![4.0, 1.0, 2.0, 9.0]).median(), 3.0);
        assert_eq!(Figures::default().median(), 0.0);
        assert_eq!(Figures(vec![4.0, 1.0, 2.0]).range(), (1.0, 4.0));
    }

    #[test]
    fn rounds_go_there_and_back_and_keep_rows_and_figures_apart() {
        let mut seen = Vec::new();
        let measured = in_turn(2, &[10.0, 20.0], |row| {
            seen.push(*row);
            Ok([*row, -row])
        });
        assert_eq!(seen, [10.0, 20.0, 20.0, 10.0]);
        let [first, second] = &measured.unwrap()[1];
        assert_eq!((first.range(), second.range()), ((20.0, 20.0), (-20.0, -20.0)));
    }
}

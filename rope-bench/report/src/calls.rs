//! The costs of a call and of a head: a line through the times of one token by its heads. The line's intercept is the
//! fixed cost of a call, its slope the loop's.

use super::results::{CallCost, CaseResult, Measurement, formulations};
use crate::names::{C, CAPI, FUSED};

/// Returns the heads of a case with one token in one tensor.
pub fn heads(case: &CaseResult) -> Option<usize> {
    case.workload.strip_prefix('H')?.parse().ok()
}

/// Returns the C loop for the instruction set of one of our formulations.
pub fn like(formulation: &str) -> Option<String> {
    let own = |prefix| formulation.strip_prefix(prefix)?.split('/').next();
    Some(format!("{C}{}", own(FUSED).or_else(|| own(CAPI))?))
}

/// Returns a line for each formulation of each group of cases, through its times or its instructions.
pub fn costs(cases: &[CaseResult], of: fn(&Measurement) -> Option<f64>) -> Vec<CallCost> {
    let mut costs: Vec<CallCost> = Vec::new();
    for group in cases.chunk_by(|a, b| a.group == b.group) {
        for name in formulations(group) {
            let point = |case: &CaseResult| Some((heads(case)? as f64, of(case.measured(name)?)?));
            let points: Vec<_> = group.iter().filter_map(point).collect();
            if let Some((intercept, slope)) = line(&points) {
                let off = |&(x, y): &(f64, f64)| (y - (intercept + slope * x)).abs() / y;
                costs.push(CallCost {
                    group: group[0].group.clone(),
                    formulation: name.into(),
                    intercept,
                    slope,
                    off: points.iter().map(off).fold(0.0, f64::max),
                });
            }
        }
    }
    costs
}

/// Fits intercept and slope by Theil and Sen: the median of the slopes of all pairs of points, and of the residuals. A
/// disturbed point moves neither.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let slopes = points.iter().enumerate().flat_map(|(index, a)| {
        let others = points[index + 1..].iter().filter(|b| b.0 != a.0);
        others.map(|b| (b.1 - a.1) / (b.0 - a.0))
    });
    let slope = median(slopes.collect())?;
    let intercept = median(points.iter().map(|&(x, y)| y - slope * x).collect())?;
    Some((intercept, slope))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) {
        0.5 * (values[middle - 1] + upper)
    } else {
        upper
    })
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_through_most_points() {
        let mut points: Vec<_> = [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40]
            .map(|heads| (f64::from(heads), 30.0 + 5.5 * f64::from(heads)))
            .to_vec();
        let near = |points: &[(f64, f64)], slack: f64| {
            let (intercept, slope) = line(points).unwrap();
            assert!((intercept - 30.0).abs() <= slack, "{intercept}");
            assert!((slope - 5.5).abs() <= slack, "{slope}");
        };
        near(&points, 1e-9);
        // Least squares would move the intercept to 37 or below 0.
        for disturbed in [0, 5, 11] {
            let kept = points[disturbed].1;
            points[disturbed].1 *= 1.5;
            near(&points, 0.5);
            points[disturbed].1 = kept;
        }
        assert_eq!(line(&points[..1]), None);
        assert_eq!(line(&[]), None);
    }
}

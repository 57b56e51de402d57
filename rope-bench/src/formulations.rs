//! The formulations of the literature. Each is one file below, and one line in [`all`].
//!
//! They are written as published: with the passes, the temporaries, the tables and the angles of their sources. Two
//! deviations favor them: temporaries are allocated once rather than in every call, and tables hold only the rows of a
//! workload.

#[cfg(feature = "intrinsics")]
#[allow(unsafe_code, reason = "calls the C API")]
pub mod capi;
pub mod complex;
pub mod even_odd;
pub mod formulation;
pub mod fused;
#[cfg(feature = "intrinsics")]
#[allow(unsafe_code, reason = "calls C")]
pub mod intrinsics;
pub mod literature;
pub mod matrix;
pub mod rotate_half;
pub mod runners;

use formulation::Formulation;

/// All formulations, in the order of the tables.
pub fn all() -> Vec<Box<dyn Formulation>> {
    let mut all: Vec<Box<dyn Formulation>> = fused::rotations().collect();
    #[cfg(feature = "intrinsics")]
    all.extend(intrinsics::all().into_iter().chain(capi::all()));
    all.push(Box::new(complex::COMPLEX));
    all.push(Box::new(complex::IN_PLACE));
    all.push(Box::new(even_odd::EVEN_ODD));
    all.push(Box::new(rotate_half::ROTATE_HALF));
    all.push(Box::new(matrix::BLOCKS));
    all.push(Box::new(matrix::SIGN));
    all.push(Box::new(matrix::DENSE));
    all.extend(fused::norms());
    all
}

#[cfg(test)]
mod tests {
    use rope_report::kind::Kind;

    use super::*;

    #[test]
    fn only_runners_are_of_other_libraries() {
        for formulation in all() {
            let name = formulation.name();
            assert_ne!(Kind::of(&name), Kind::Library, "{name}");
        }
        assert_eq!(Kind::of("candle/rope"), Kind::Library);
        let on_the_fly = Kind::OnTheFly { backend: "avx2" };
        assert_eq!(Kind::of("fused/avx2/on-the-fly"), on_the_fly);
    }
}

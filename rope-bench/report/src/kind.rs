//! The kind of a formulation, by its name: plots give each kind its own look.

use maud::{Markup, html};

use crate::names::{C, CAPI, FUSED, NORMED};

/// The kind of a formulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// rope-core's, with ready rows.
    Own {
        backend: &'a str,
    },
    /// rope-core's, with rows made in the call.
    OnTheFly {
        backend: &'a str,
    },
    /// The same kernel in C.
    Intrinsics {
        backend: &'a str,
    },
    Literature,
    Library,
}

/// The families of the literature: the part of a name before the slash.
const LITERATURE: [&str; 4] = ["complex", "even-odd", "rotate-half", "matrix"];

impl<'a> Kind<'a> {
    /// Returns the kind of a formulation.
    pub fn of(formulation: &'a str) -> Self {
        if let Some(own) = formulation.strip_prefix(FUSED) {
            return match own.split_once('/') {
                Some((backend, _)) => Kind::OnTheFly { backend },
                None => Kind::Own { backend: own },
            };
        }
        let mut prefixes = [NORMED, CAPI].into_iter();
        if let Some(own) = prefixes.find_map(|prefix| formulation.strip_prefix(prefix)) {
            let backend = own.split('/').next().unwrap_or(own);
            return Kind::Own { backend };
        }
        if let Some(backend) = formulation.strip_prefix(C) {
            return Kind::Intrinsics { backend };
        }
        if LITERATURE.contains(&family(formulation)) {
            Kind::Literature
        } else {
            Kind::Library
        }
    }

    /// Returns the classes of the style: one for the kind, one for the color.
    pub fn class(self) -> String {
        match self {
            Kind::Own { backend } => format!("own {backend}"),
            Kind::OnTheFly { backend } => format!("on-the-fly {backend}"),
            Kind::Intrinsics { backend } => format!("intrinsics {backend}"),
            Kind::Literature => "literature".into(),
            Kind::Library => "library".into(),
        }
    }

    /// Returns the text of the legend.
    fn says(self) -> String {
        match self {
            Kind::Own { backend } => format!("rope-core, {backend}"),
            Kind::OnTheFly { .. } => "thin: cos and sin made in the call (on-the-fly)".into(),
            Kind::Intrinsics { .. } => "hollow: the same kernel in C".into(),
            Kind::Literature => "as the literature writes it".into(),
            Kind::Library => "other libraries".into(),
        }
    }
}

/// Returns the family of a formulation, or the library.
pub fn family(formulation: &str) -> &str {
    formulation
        .split_once('/')
        .map_or(formulation, |(family, _)| family)
}

/// Returns a sample of each look that occurs, with its meaning.
pub fn legend<'a>(formulations: impl IntoIterator<Item = &'a str>) -> Markup {
    let mut looks: Vec<(String, String)> = Vec::new();
    for formulation in formulations {
        let kind = Kind::of(formulation);
        let says = kind.says();
        if !looks.iter().any(|(_, other)| *other == says) {
            looks.push((kind.class(), says));
        }
    }
    html! {
        ul.legend {
            @for (class, says) in &looks { li { span class={ "sample " (class) } {} (says) } }
            li { span."sample roof" {} "the roof" }
            li { span."sample range" {} "pale: slower rounds" }
        }
    }
}

//! A line of `cases.tsv`, and the tensors that ggml's test makes of it.

use std::ffi::c_int;
use std::ptr;

use llama_cpp_sys_2 as c;

/// A line of `cases.tsv`.
pub(crate) struct Case {
    pub(crate) line: &'static str,
    pub(crate) backward: bool,
    pub(crate) kind: c::ggml_type,
    extents: [i64; 4],
    n_dims: c_int,
    mode: c_int,
    scale: f32,
    extrapolation: f32,
    attention_factor: f32,
    factors: bool,
    view: u8,
    inplace: bool,
    offset: c_int,
}

impl Case {
    pub(crate) fn parse(line: &'static str) -> Option<Case> {
        let fields: Vec<_> = line.split('\t').collect();
        let [
            op,
            kind,
            extents,
            n_dims,
            mode,
            scale,
            extrapolation,
            factor,
            factors,
            view,
            inplace,
            offset,
        ] = fields[..]
        else {
            return None;
        };
        let extents: Vec<_> = extents
            .split('x')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        Some(Case {
            line,
            backward: match op {
                "ROPE" => false,
                "ROPE_BACK" => true,
                _ => return None,
            },
            kind: match kind {
                "f32" => c::GGML_TYPE_F32,
                "f16" => c::GGML_TYPE_F16,
                _ => return None,
            },
            extents: extents.try_into().ok()?,
            n_dims: n_dims.parse().ok()?,
            mode: match mode {
                "normal" => 0,
                "neox" => 2,
                "mrope" => 8,
                "vision" => 24,
                "imrope" => 40,
                _ => return None,
            },
            scale: scale.parse().ok()?,
            extrapolation: extrapolation.parse().ok()?,
            attention_factor: factor.parse().ok()?,
            factors: factors == "1",
            view: view.parse().ok()?,
            inplace: inplace == "1",
            offset: offset.parse().ok()?,
        })
    }

    /// Returns the operator, with the tensors that `build_graph` of ggml's `test_rope` makes.
    ///
    /// # Safety
    ///
    /// The context has room for four tensors.
    pub(crate) unsafe fn build(&self, context: *mut c::ggml_context) -> Operator {
        let [head_dim, heads, tokens, batch] = self.extents;
        let multi = self.mode & 8 != 0;
        let n_dims = if self.mode == 24 {
            self.n_dims / 2
        } else {
            self.n_dims
        };
        let share = if self.mode == 24 {
            n_dims / 2
        } else {
            n_dims / 3
        };
        let mut sections = [share, share, if self.mode == 24 { 0 } else { share }, 0];
        // SAFETY: the context has room, and the extents are what ggml's own test passes.
        unsafe {
            let whole = match self.view {
                0 => self.extents,
                1 => [2 * head_dim, 4 * heads, 3 * tokens, batch],
                _ => [2 * head_dim, heads, tokens, batch],
            };
            let [a, b, d, e] = whole;
            let root = c::ggml_new_tensor_4d(context, self.kind, a, b, d, e);
            let x = if self.view == 0 {
                root
            } else {
                let [size, head, token, sequence] = (*root).nb;
                let start = if self.view == 2 {
                    size * head_dim as usize
                } else {
                    0
                };
                c::ggml_view_4d(
                    context, root, head_dim, heads, tokens, batch, head, token, sequence, start,
                )
            };
            let ids = if multi { 4 * tokens } else { tokens };
            let positions = c::ggml_new_tensor_1d(context, c::GGML_TYPE_I32, ids);
            let factors = if self.factors {
                c::ggml_new_tensor_1d(context, c::GGML_TYPE_F32, (self.n_dims / 2).into())
            } else {
                ptr::null_mut()
            };
            macro_rules! rope {
                ($function:ident, $($sections:expr)?) => {
                    c::$function(
                        context, x, positions, factors, n_dims, $($sections,)? self.mode, 0, 10_000.0, self.scale,
                        self.extrapolation, self.attention_factor, 1.0, 1.0,
                    )
                };
            }
            let sections = sections.as_mut_ptr();
            let result = match (multi, self.backward, self.inplace) {
                (false, false, false) => rope!(ggml_rope_ext,),
                (false, false, true) => rope!(ggml_rope_ext_inplace,),
                (false, true, _) => rope!(ggml_rope_ext_back,),
                (true, false, false) => rope!(ggml_rope_multi, sections),
                (true, false, true) => rope!(ggml_rope_multi_inplace, sections),
                (true, true, _) => rope!(ggml_rope_multi_back, sections),
            };
            if self.offset != 0 {
                c::ggml_rope_set_offset(result, self.offset);
            }
            Operator {
                root,
                x,
                positions,
                factors,
                result,
            }
        }
    }
}

/// Tensors of a context, which outlives them.
pub(crate) struct Operator {
    pub(crate) root: *mut c::ggml_tensor,
    pub(crate) x: *mut c::ggml_tensor,
    pub(crate) positions: *mut c::ggml_tensor,
    pub(crate) factors: *mut c::ggml_tensor,
    pub(crate) result: *mut c::ggml_tensor,
}

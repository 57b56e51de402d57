//! The mutants of a source file.

use std::ops::Range;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Lit, Pat, ReturnType, Signature, UnOp, spanned::Spanned};

/// Stands in a replacement for the call that tells whether the mutant is the chosen one.
pub const CHOSEN: char = '\u{1}';

/// A change of an expression, of an arm or of a function's body. File, text and change are its name.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub file: String,
    /// The function that it is in, as `Type::name`, or `name`.
    pub function: String,
    pub line: usize,
    /// The line without its indentation.
    pub text: String,
    pub change: String,
    /// The bytes that are replaced, and by what: both variants, and between them [`CHOSEN`].
    pub at: Range<usize>,
    pub new: String,
}

/// All mutants of a file.
pub fn mutants(file: &str, source: &str) -> Vec<Mutant> {
    let parsed = syn::parse_file(source).expect("a file that compiles");
    let mut finder = Finder { file, source, owner: String::new(), function: String::new(), found: Vec::new() };
    finder.visit_file(&parsed);
    finder.found
}

struct Finder<'s> {
    file: &'s str,
    source: &'s str,
    /// The type or trait whose functions these are, as `Type::`, and the function.
    owner: String,
    function: String,
    found: Vec<Mutant>,
}

/// What stands in the place of an operator.
const OPERATORS: &str =
    "+ - , - + , * + , / * , % / , && || , || && , == != , != == , < <= , < > , <= < , > >= , >= > ,
    & | , | & , ^ | , << >> , >> << , += -= , -= += , *= += , /= *= , &= |= , |= &= , ^= |=";

/// What stands in the place of a method.
const METHODS: &str = "all any , any all , min max , max min , is_some is_none , is_none is_some , is_ok is_err ,
    is_err is_ok , is_some_and is_none_or , is_none_or is_some_and , first last , last first , floor ceil , ceil floor ,
    saturating_add wrapping_add , saturating_sub wrapping_sub , saturating_mul wrapping_mul ,
    wrapping_add wrapping_sub , wrapping_sub wrapping_add , wrapping_mul wrapping_add";

/// What a function returns at once, by its type without spaces; a type ends or goes on.
const RETURNS: &str = "() () , bool true , bool false , u8 0 , u16 0 , u32 0 , u64 0 , u128 0 , usize 0 , usize 1 ,
    i32 0 , i64 0 , f32 0.0 , f32 1.0 , f64 0.0 , f64 1.0 , &str \"\" , Option<.. None , Vec<.. Vec::new() ,
    fmt::Result Ok(()) , Result<()>.. Ok(()) , Result<(),.. Ok(()) , Result<usize.. Ok(1) , Result<bool.. Ok(true) ,
    Result<bool.. Ok(false) , Result<Option<.. Ok(None)";

fn pairs(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.split(" ,").filter_map(|pair| pair.trim().split_once(' '))
}

/// Whether a condition is a `let` chain, which is no expression of its own.
fn has_let(condition: &Expr) -> bool {
    matches!(condition, Expr::Let(_))
        || matches!(condition, Expr::Binary(binary) if has_let(&binary.left) || has_let(&binary.right))
}

/// Whether a pattern is that of all other values; `None` is a name too.
fn is_any(pattern: &Pat) -> bool {
    matches!(pattern, Pat::Wild(_))
        || matches!(pattern, Pat::Ident(name) if !name.ident.to_string().starts_with(char::is_uppercase))
}

impl<'s> Finder<'s> {
    fn text(&self, node: &impl Spanned) -> &'s str {
        &self.source[node.span().byte_range()]
    }

    fn add(&mut self, change: String, at: Range<usize>, new: String) {
        let line = self.source[..at.start].matches('\n').count();
        let text = self.source.lines().nth(line).unwrap_or_default().trim().to_string();
        let (file, line) = (self.file.to_string(), line + 1);
        // The same change of an equal line, or another of this one.
        let same = |other: &&Mutant| other.text == text && other.change.starts_with(&change);
        let change = match self.found.iter().filter(same).count() {
            0 => change,
            n => format!("{change} ({})", n + 1),
        };
        let function = self.function.clone();
        self.found.push(Mutant { file, function, line, text, change, at, new });
    }

    /// An expression that becomes another one.
    fn swap(&mut self, change: String, whole: &Expr, mutated: &str) {
        let change = match self.text(whole) {
            text if text.len() < 60 && !text.contains('\n') && !change.starts_with(text) => {
                format!("{change} in `{text}`")
            }
            _ => change,
        };
        let new = format!("(if {CHOSEN} {{ {mutated} }} else {{ {} }})", self.text(whole));
        self.add(change, whole.span().byte_range(), new);
    }

    /// A condition that becomes `true` or `false`.
    fn condition(&mut self, what: &str, condition: &Expr, value: bool) {
        if !has_let(condition) {
            let text = self.text(condition);
            let new = match value {
                true => format!("({CHOSEN} || ({text}))"),
                false => format!("(!{CHOSEN} && ({text}))"),
            };
            self.add(format!("{what} to {value}"), condition.span().byte_range(), new);
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        if signature.constness.is_some() {
            return;
        }
        let outer = std::mem::replace(&mut self.function, format!("{}{}", self.owner, signature.ident));
        let output = match &signature.output {
            ReturnType::Default => "()".to_string(),
            ReturnType::Type(_, output) => self.text(output).replace(' ', ""),
        };
        let start = block.brace_token.span.open().byte_range().end;
        let body = self.source[start..block.brace_token.span.close().byte_range().start].trim();
        for (name, value) in pairs(RETURNS).filter(|(_, value)| *value != body) {
            if output == name || name.strip_suffix("..").is_some_and(|name| output.starts_with(name)) {
                let change = format!("`{}` returns {value}", signature.ident);
                self.add(change, start..start, format!(" if {CHOSEN} {{ return {value}; }} "));
            }
        }
        self.visit_block(block);
        self.function = outer;
    }

    /// What is in an implementation or a trait, by its name without parameters.
    fn owned(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let name = name.split('<').next().unwrap_or_default();
        let outer = std::mem::replace(&mut self.owner, format!("{name}::"));
        visit(self);
        self.owner = outer;
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(e) if !has_let(expr) => {
                let (left, op, right) = (self.text(&e.left), self.text(&e.op), self.text(&e.right));
                for (from, to) in pairs(OPERATORS).filter(|(from, _)| *from == op) {
                    self.swap(format!("`{from}` to `{to}`"), expr, &format!("({left}) {to} ({right})"));
                }
            }
            Expr::Unary(e) if matches!(e.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                self.swap(format!("without `{}`", self.text(&e.op)), expr, self.text(&e.expr));
            }
            Expr::If(e) => [true, false].into_iter().for_each(|to| self.condition("if", &e.cond, to)),
            // Not true, which is nearly always a loop without end.
            Expr::While(e) => self.condition("while", &e.cond, false),
            Expr::MethodCall(e) => {
                let (whole, at) = (expr.span().byte_range(), e.method.span().byte_range());
                for (from, to) in pairs(METHODS).filter(|(from, _)| e.method == *from) {
                    let (before, after) = (whole.start..at.start, at.end..whole.end);
                    let mutated = [&self.source[before], to, &self.source[after]].concat();
                    self.swap(format!("`{from}` to `{to}`"), expr, &mutated);
                }
            }
            Expr::Lit(e) => {
                let to = match &e.lit {
                    Lit::Bool(value) => (!value.value).to_string(),
                    Lit::Int(value) => match value.base10_parse::<u128>() {
                        Ok(n) => n.checked_sub(1).unwrap_or(1).to_string() + value.suffix(),
                        Err(_) => return,
                    },
                    _ => return,
                };
                self.swap(format!("{} to {to}", self.text(e)), expr, &to);
            }
            Expr::Match(e) => {
                let any = e.arms.iter().position(|arm| arm.guard.is_none() && is_any(&arm.pat));
                for (index, arm) in e.arms.iter().enumerate() {
                    let end = arm.pat.span().byte_range().end;
                    match &arm.guard {
                        Some((_, guard)) => [true, false].into_iter().for_each(|to| self.condition("guard", guard, to)),
                        None if any.is_some_and(|any| index < any) => {
                            let change = format!("without the arm `{}`", self.text(&arm.pat));
                            self.add(change, end..end, format!(" if !{CHOSEN}"));
                        }
                        None => {}
                    }
                }
            }
            // Its length is a constant.
            Expr::Repeat(e) => return self.visit_expr(&e.expr),
            Expr::Const(_) => return,
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let owner = std::mem::take(&mut self.owner);
        self.function(&item.sig, &item.block);
        self.owner = owner;
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.owned(self.text(&item.self_ty), |finder| visit::visit_item_impl(finder, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.owned(&item.ident.to_string(), |finder| visit::visit_item_trait(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        item.default.iter().for_each(|block| self.function(&item.sig, block));
    }

    // What is evaluated when it is compiled, and what is no expression.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
}

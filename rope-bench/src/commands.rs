//! The commands: [`cli`] has their options, and each other file what one of them does.

pub mod accuracy;
pub mod call;
pub mod cli;
pub mod gains;
pub mod instructions;
pub mod passes;
pub mod programs;
pub mod rank;
pub mod record;
pub mod rows;
pub mod run;
pub mod selection;
pub mod tune;
pub mod turns;

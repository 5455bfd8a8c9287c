//! The pure core of vramcast: how much GPU memory a training or inference step needs.
//!
//! A model is written once, over a small vocabulary of tensor operations ([`backend`]), and
//! interpreters give it meaning. The shadows ([`shadow`]) compute nothing: they allocate and free
//! what a runtime would, in its order, which makes a [`timeline`]; replaying it through a simulated
//! allocator ([`alloc`]) gives a prediction ([`mod@predict`]).
//!
//! Constraint: no IO, no clock, no environment, no randomness. Same input, same bytes out.

pub mod accuracy;
pub mod advise;
pub mod alloc;
pub mod backend;
pub mod bytes;
pub mod calibration;
pub mod candle;
pub mod compare;
pub mod config;
pub mod context;
pub mod diff;
pub mod dtype;
pub mod figures;
pub mod fit;
pub mod gate;
pub mod gpu;
pub mod layers;
pub mod lengths;
pub mod models;
pub mod pace;
pub mod predict;
pub mod record;
pub mod sequence;
pub mod shadow;
pub mod share;
pub mod timeline;
pub mod workload;

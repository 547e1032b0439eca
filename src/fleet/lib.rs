//! Many judged hosts → what they have in common, and which of them is unlike the others.
//!
//! Pure: nothing here reads the machine or a file. [`Gathering`] takes one [`Host`] at a time and keeps a few kilobytes of it;
//! [`Gathering::conclude`] gives the [`Fleet`] that renderers draw.
//!
//! Votes come first: a rule that fires on half of the hosts is one fault, and a rule that fires on one of forty is what is odd about that
//! host. Readings come second, since they only say that a host is unlike the others, not that anything is wrong with it: a claim needs a
//! distance that noise does not reach *and* a difference that matters. Hosts that could not be judged are listed and count as nothing.

mod clusters;
mod contrast;
mod culprits;
mod document;
mod gather;
mod headline;
mod input;
mod names;
mod outliers;
mod spread;
#[cfg(test)]
mod tests;
mod votes;

pub use document::{
    Clustered, CommonCulprit, Compared, Contrast, ErrorCount, FORMAT_VERSION, Fault, Fleet, Group, HostRow, NotJudged,
    OddFinding, OddHost, Outlier, Reach, Why,
};
pub use gather::Gathering;
pub use input::{Host, Judgement, Measure};
pub use outliers::FAR;

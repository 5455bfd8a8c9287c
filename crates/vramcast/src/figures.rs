//! What is compared of a run: the five peaks, the phases, and what is alive at the peak. A
//! prediction has all of it, a measurement the part that somebody read.

use crate::bytes::Bytes;
use crate::layers::Layer;
use crate::predict::{AtPeak, Prediction};
use crate::record::Measured;
use crate::timeline::Phase;
use crate::workload::Runtime;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, EnumString, VariantNames};

/// One of the five peaks.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    EnumIter,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Figure {
    /// What the program asked for.
    Requested,
    /// That in the allocator's blocks.
    Allocated,
    /// What the allocator took from the driver.
    Reserved,
    /// What the device says is used.
    Nvml,
    /// The smallest room in which the allocator still serves the run.
    Need,
}

/// The highest bytes of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseFigure {
    /// Which phase.
    pub name: Phase,
    /// Highest allocated bytes; requested ones on candle, whose pool counts those.
    pub peak: Bytes,
}

/// A run's figures. Sizes in bytes; what nobody knows is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Highest requested bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Bytes>,
    /// Highest allocated bytes; absent on candle, whose pool counts what was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Bytes>,
    /// Highest reserved bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    /// The highest that NVML showed beyond what it showed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml: Option<Bytes>,
    /// The smallest capacity for the allocator with which the job runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<Bytes>,
    /// The phase of the peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_phase: Option<Phase>,
    /// The phases, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseFigure>,
    /// What is alive at the peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_peak: Option<AtPeak>,
    /// The same by layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
}

impl Figures {
    /// One of the peaks.
    pub fn peak(&self, figure: Figure) -> Option<Bytes> {
        match figure {
            Figure::Requested => self.requested,
            Figure::Allocated => self.allocated,
            Figure::Reserved => self.reserved,
            Figure::Nvml => self.nvml,
            Figure::Need => self.need,
        }
    }

    /// The place of one of the peaks.
    pub fn peak_mut(&mut self, figure: Figure) -> &mut Option<Bytes> {
        match figure {
            Figure::Requested => &mut self.requested,
            Figure::Allocated => &mut self.allocated,
            Figure::Reserved => &mut self.reserved,
            Figure::Nvml => &mut self.nvml,
            Figure::Need => &mut self.need,
        }
    }

    /// What the runtime counts at its peak: allocated bytes, else requested ones.
    pub fn counted(&self) -> Option<(Figure, Bytes)> {
        [Figure::Allocated, Figure::Requested]
            .into_iter()
            .find_map(|figure| Some((figure, self.peak(figure)?)))
    }
}

impl From<&Prediction> for Figures {
    fn from(p: &Prediction) -> Self {
        let candle = p.workload.runtime == Runtime::Candle;
        Self {
            requested: Some(p.peak_requested),
            allocated: (!candle).then_some(p.peak_allocated),
            reserved: Some(p.peak_reserved),
            nvml: Some(p.peak_nvml),
            need: p.need,
            peak_phase: Some(p.peak_phase),
            phases: p
                .phases
                .iter()
                .map(|phase| PhaseFigure {
                    name: phase.name,
                    peak: phase.peak_allocated,
                })
                .collect(),
            at_peak: Some(p.at_peak),
            layers: p.layers.clone(),
        }
    }
}

impl From<&Measured> for Figures {
    fn from(m: &Measured) -> Self {
        let phases = phases(m);
        let highest = phases.iter().max_by_key(|phase| phase.peak);
        Self {
            requested: m.peak_requested,
            allocated: m.peak_allocated,
            reserved: m.highest_reserved(),
            nvml: m.nvml(),
            need: None,
            peak_phase: highest.map(|phase| phase.name),
            phases,
            at_peak: None,
            layers: Vec::new(),
        }
    }
}

/// The highest bytes of each phase over all steps.
fn phases(measured: &Measured) -> Vec<PhaseFigure> {
    let mut phases: Vec<PhaseFigure> = Vec::new();
    let mut see = |name: Phase, peak: Bytes| match phases.iter_mut().find(|p| p.name == name) {
        Some(phase) => phase.peak = phase.peak.max(peak),
        None => phases.push(PhaseFigure { name, peak }),
    };
    for step in &measured.steps {
        for phase in &step.phases {
            see(phase.name, phase.peak_requested);
        }
        if let Some(step) = &step.allocated {
            see(Phase::Forward, step.peak_fwd);
            let rest = [
                (Phase::Backward, step.peak_bwd),
                (Phase::Step, step.peak_step),
            ];
            for (name, peak) in rest {
                if let Some(peak) = peak {
                    see(name, peak);
                }
            }
        }
    }
    phases
}

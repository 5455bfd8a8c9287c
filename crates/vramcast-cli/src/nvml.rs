//! What NVML says of a card, before and while a probe runs. The only module that talks to it.

use anyhow::{Context, Result, bail};
use nvml_wrapper::Nvml;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vramcast::bytes::Bytes;

/// A card as NVML describes it.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Card {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) total: Bytes,
    /// In use by whatever runs now.
    pub(crate) used: Bytes,
    /// Kept by the driver.
    pub(crate) reserved: Bytes,
    /// Processes that have a context now, other than this one.
    pub(crate) tenants: Vec<u32>,
    /// Whether the card is cut into instances, whose memory NVML does not show here.
    pub(crate) mig: bool,
}

/// Every card of this machine.
///
/// # Errors
/// NVML is missing or refuses to answer.
pub(crate) fn cards() -> Result<Vec<Card>> {
    let nvml = Nvml::init().context("NVML is not available (no NVIDIA driver)")?;
    (0..nvml.device_count()?)
        .map(|index| card_of(&nvml, index))
        .collect()
}

/// The card that CUDA calls `ordinal`: it counts what `CUDA_VISIBLE_DEVICES` shows it, and the
/// probe's process counts in the order of the bus, as NVML does.
///
/// # Errors
/// NVML is missing, or there is no such card.
pub(crate) fn card(ordinal: usize) -> Result<Card> {
    let nvml = Nvml::init().context("NVML is not available (no NVIDIA driver)")?;
    let no_card = || format!("there is no CUDA device {ordinal}");
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let index = match visible.as_deref().map(|list| list.split(',').nth(ordinal)) {
        None => u32::try_from(ordinal).with_context(no_card)?,
        Some(None | Some("")) => bail!("{} in CUDA_VISIBLE_DEVICES", no_card()),
        Some(Some(shown)) => match shown.trim().parse() {
            Ok(index) => index,
            Err(_) => nvml
                .device_by_uuid(shown.trim())
                .with_context(no_card)?
                .index()?,
        },
    };
    card_of(&nvml, index)
}

/// What a card uses now.
pub(crate) fn used(index: u32) -> Option<Bytes> {
    let nvml = Nvml::init().ok()?;
    let memory = nvml.device_by_index(index).ok()?.memory_info().ok()?;
    Some(Bytes(memory.used))
}

fn card_of(nvml: &Nvml, index: u32) -> Result<Card> {
    let device = nvml
        .device_by_index(index)
        .with_context(|| format!("no card {index}"))?;
    let memory = device.memory_info()?;
    let own = std::process::id();
    // Containers hide other processes, and some drivers refuse: then none are known.
    let processes = device.running_compute_processes().unwrap_or_default();
    Ok(Card {
        index,
        name: device.name()?,
        driver: nvml.sys_driver_version()?,
        total: Bytes(memory.total),
        used: Bytes(memory.used),
        reserved: Bytes(memory.reserved),
        tenants: processes
            .iter()
            .map(|p| p.pid)
            .filter(|&pid| pid != own)
            .collect(),
        mig: device.mig_mode().is_ok_and(|mode| mode.current == 1),
    })
}

/// The highest used bytes seen, and how often it was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) highest: Bytes,
    pub(crate) samples: u64,
}

/// Reads a card's used bytes in a loop until it is told to stop, or dropped.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Watched>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Watch {
    /// Starts reading. Short peaks last tens of microseconds, and so does the pause between
    /// readings.
    pub(crate) fn start(index: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut watched = Watched::default();
            let Ok(nvml) = Nvml::init() else {
                return watched;
            };
            let Ok(device) = nvml.device_by_index(index) else {
                return watched;
            };
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(memory) = device.memory_info() {
                    watched.highest = watched.highest.max(Bytes(memory.used));
                    watched.samples += 1;
                }
                std::thread::sleep(Duration::from_micros(20));
            }
            watched
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Stops and says what was seen.
    pub(crate) fn stop(mut self) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.take().map(JoinHandle::join);
        seen.and_then(std::thread::Result::ok).unwrap_or_default()
    }
}

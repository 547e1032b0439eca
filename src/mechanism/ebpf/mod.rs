//! Programs inside the kernel: loading, attaching, reading their maps, and what they cost.
//!
//! The programs are C with CO-RE relocations (`*.bpf.c` beside the probe that reads them), compiled by `build.sh`; the
//! objects are committed, so that a build needs no C compiler. Everything vanishes with the process's descriptors, however
//! it ends.

mod cost;
mod error;
pub mod filter;
pub mod hist;
mod iterator;
mod maps;
mod object;
mod point;
pub mod words;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use aya::{Btf, EbpfLoader};
use aya_obj::btf::BtfKind;

pub use self::object::{Held, Hook, Object};
pub use aya::include_bytes_aligned;
pub use cost::CostMeter;
pub use filter::Filter;
pub use iterator::TaskIterator;
pub use point::Moments;

use crate::host::Host;
use crate::model::{Reason, Unavailable};

/// The running kernel's types, and what loads objects against them. Parsing them takes some 20 ms and 30 MB, so one of
/// these serves all probes of a window, and is dropped once they are loaded.
pub struct Kernel {
    btf: Btf,
    loader: Mutex<EbpfLoader<'static>>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kernel")
    }
}

/// A constant of a program, set before it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    name: &'static str,
    bytes: Vec<u8>,
}

impl Global {
    /// A 32-bit constant.
    #[must_use]
    pub fn u32(name: &'static str, value: u32) -> Self {
        Self { name, bytes: value.to_ne_bytes().to_vec() }
    }

    /// A 64-bit constant.
    #[must_use]
    pub fn u64(name: &'static str, value: u64) -> Self {
        Self { name, bytes: value.to_ne_bytes().to_vec() }
    }

    /// An array, or anything else, byte by byte. Its length must be that of the C variable.
    #[must_use]
    pub fn bytes(name: &'static str, bytes: Vec<u8>) -> Self {
        Self { name, bytes }
    }

    /// Its name in the program.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its value as it lies in memory.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.bytes
    }
}

/// The one in use at this moment, if any.
static CURRENT: Mutex<Weak<Kernel>> = Mutex::new(Weak::new());

impl Kernel {
    /// The one that somebody holds at this moment, or a new one. The error says what stands in the way of programs in the
    /// kernel here, and the least that would remove it.
    pub fn shared(host: &Host) -> Result<Arc<Self>, Unavailable> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = current.upgrade() {
            return Ok(kernel);
        }
        let kernel = Arc::new(Self::open(host)?);
        *current = Arc::downgrade(&kernel);
        Ok(kernel)
    }

    /// Reads the kernel's types.
    fn open(host: &Host) -> Result<Self, Unavailable> {
        error::obstacle(host)?;
        let btf = Btf::from_sys_fs().map_err(|error| {
            Unavailable::new(Reason::Absent, format!("/sys/kernel/btf/vmlinux cannot be used: {error}"))
                .with_remedy("use a kernel built with CONFIG_DEBUG_INFO_BTF")
        })?;
        let mut loader = EbpfLoader::new();
        // Only offsets are needed from here on; a verifier log is asked for when a program is refused.
        loader.verifier_log_level(aya::VerifierLogLevel::DISABLE);
        Ok(Self { btf, loader: Mutex::new(loader) })
    }

    /// Loads an object's maps, with constants in force. Programs are loaded when they are attached.
    pub fn load(
        &self,
        bytes: &[u8],
        globals: Vec<Global>,
        entries: &[(&'static str, u32)],
    ) -> Result<Object, Unavailable> {
        let mut loader = self.loader.lock().unwrap_or_else(PoisonError::into_inner);
        for global in globals {
            // The loader borrows its constants for as long as it lives; they are a few hundred bytes for each probe.
            let bytes: &'static [u8] = Vec::leak(global.bytes);
            loader.override_global(global.name, bytes, false);
        }
        for (map, size) in entries {
            loader.map_max_entries(map, *size);
        }
        Ok(Object::new(loader.load(bytes).map_err(|e| error::of_object(&e))?))
    }

    /// Whether the kernel's types name a function. It may still be impossible to attach to it.
    #[must_use]
    pub fn has_function(&self, name: &str) -> bool {
        self.btf.id_by_type_name_kind(name, BtfKind::Func).is_ok()
    }

    /// Whether the kernel has a tracepoint.
    #[must_use]
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.btf.id_by_type_name_kind(&format!("btf_trace_{name}"), BtfKind::Typedef).is_ok()
    }

    pub(super) fn btf(&self) -> &Btf {
        &self.btf
    }
}

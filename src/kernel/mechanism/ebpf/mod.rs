//! Programs inside the kernel: loading, attaching, reading their maps, and what they cost.
//!
//! The programs are C with CO-RE relocations (`*.bpf.c` beside the probe that reads them), which Rust cannot emit, compiled by `build.sh`
//! with a pinned clang. The objects are committed, so that a build needs no clang and no kernel headers, and `.ci/run` verifies that they
//! are what the sources give, byte for byte. Everything vanishes with the process's descriptors, however it ends, SIGKILL included.
//!
//! There is a small object for each probe, since a kernel that refuses one map type refuses the whole object. `BOTH_TRACEPOINTS`
//! (`include/rdiag.h`) makes two programs from one body: a BTF tracepoint, which follows pointers directly, and a raw tracepoint, which
//! reads through a helper. The best way that works is taken; the result says which, and why not the others. What differs between kernels is
//! asked of the running one (`bpf_core_field_exists`, or one program and then the other), never concluded from a release number.

mod cost;
mod error;
pub mod filter;
pub mod hist;
mod iterator;
mod loader;
mod maps;
mod object;
mod point;
mod twin;
mod types;
pub mod words;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use aya::{Btf, Endianness};

pub use self::object::{Held, Hook, Object};
pub use aya::include_bytes_aligned;
pub use cost::CostMeter;
pub use filter::Filter;
pub use iterator::TaskIterator;
pub use point::{Moments, Way};
pub use twin::Twin;
use types::AttachPoint;
pub use types::KernelTypes;
use types::TRACEPOINTS;

use crate::host::Host;
use crate::mechanism::btf::{FUNC, TYPEDEF};
use rdiag_model::Unavailable;

/// What loads objects. It holds the running kernel's types as they lie in its file (some 6 MB), so one of these serves all
/// probes of a window, and is dropped once they are loaded.
#[derive(Debug)]
pub struct Kernel {
    types: KernelTypes,
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
    /// The one that is in use at this moment, or a new one. The error says what prevents BPF programs on this
    /// host, and the least that would allow them.
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
        loader::keep_no_large_blocks();
        Ok(Self { types: KernelTypes::read(host)? })
    }

    /// Loads an object's maps, with constants in force. Programs are loaded when they are attached.
    pub fn load(
        &self,
        bytes: &[u8],
        globals: Vec<Global>,
        entries: &[(&'static str, u32)],
    ) -> Result<Object, Unavailable> {
        let types = Btf::parse(&self.types.for_object(bytes), Endianness::default()).unwrap_or_default();
        let mut loader = loader::without_types();
        // The loader asks for a log only when a program was refused. With no level at all the kernel would refuse that log, and
        // hide the reason behind EINVAL.
        loader.verifier_log_level(aya::VerifierLogLevel::STATS).btf(Some(&types));
        for global in &globals {
            loader.override_global(global.name, global.bytes.as_slice(), false);
        }
        for (map, size) in entries {
            loader.map_max_entries(map, *size);
        }
        Ok(Object::new(loader.load(bytes).map_err(|e| error::of_object(&e))?))
    }

    /// Whether the kernel has a tracepoint.
    #[must_use]
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoint(name).exists()
    }

    /// Whether the kernel's types describe a function, so that it can be attached to.
    #[must_use]
    pub fn has_function(&self, name: &str) -> bool {
        self.function(name).exists()
    }

    /// A tracepoint as something to attach to.
    fn tracepoint(&self, name: &str) -> AttachPoint {
        self.types.point(TYPEDEF, &format!("{TRACEPOINTS}{name}"))
    }

    /// Types that have all tracepoints and iterators.
    fn points(&self) -> Arc<Btf> {
        self.types.points()
    }

    /// A function as something to attach to.
    fn function(&self, name: &str) -> AttachPoint {
        self.types.point(FUNC, name)
    }
}

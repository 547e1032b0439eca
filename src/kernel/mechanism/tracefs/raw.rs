//! The buffers of an instance as the kernel fills them: records of its tracers, page by page.

use super::instance::{Instance, Pipe};
use super::page::PageLayout;
use crate::host::Host;
use rdiag_model::{Reason, Unavailable};

/// Pages of one CPU that are read in one turn, so that a flood does not keep rdiag from anything else.
const TURN: usize = 10_000;

/// The open buffers of all CPUs. Close them before the instance is dropped: the kernel keeps an instance that is being read.
#[derive(Debug)]
pub struct Buffers {
    layout: PageLayout,
    pipes: Vec<(u32, Pipe)>,
    page: Vec<u8>,
}

impl Buffers {
    /// Opens them.
    pub fn open(instance: &Instance, host: &Host) -> Result<Self, Unavailable> {
        let layout = PageLayout::parse(&instance.get_at_once(host, "events/header_page")?);
        let page = vec![0; layout.size().ok_or_else(|| not_understood("events/header_page"))?];
        Ok(Self { layout, pipes: instance.raw_pipes(host)?, page })
    }

    /// Hands on what is there and forgets it: time in nanoseconds of the clock in force, CPU, and bytes of each record, CPU after
    /// CPU. When a page is done and `each` has said `false`, the rest stays where it is.
    pub fn poll(&mut self, mut each: impl FnMut(u64, u32, &[u8]) -> bool) -> Result<(), Unavailable> {
        let Self { layout, pipes, page } = self;
        for (cpu, pipe) in pipes {
            let mut goes_on = true;
            for _ in 0..TURN {
                let read = if goes_on { pipe.read(page)? } else { 0 };
                if read == 0 {
                    break;
                }
                let bytes = page.get(..read).unwrap_or_default();
                layout.records(bytes, |time, record| goes_on &= each(time, *cpu, record));
            }
        }
        Ok(())
    }
}

/// A description of the kernel's own records that rdiag cannot read.
#[must_use]
pub fn not_understood(file: &str) -> Unavailable {
    Unavailable::new(Reason::Malformed, format!("the kernel describes its records in {file} in an unknown way"))
}

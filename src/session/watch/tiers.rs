//! Old blocks with a sample a minute: where space is short, blocks as they were recorded may take half of what incidents leave, and the
//! oldest of them is written again with fewer samples, before anything is removed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::files::{HEADER, number};
use super::pins;
use rdiag_history::{Incident, MAX_FILE, header_of, thin_block};
use rdiag_kernel::host::files::Folder;
use rdiag_kernel::host::{StoredFile, thread_usage};

/// Part of the space that blocks as they were recorded may take before they are thinned.
const FINE_SHARE: u64 = 2;
/// Blocks that are thinned at once: each costs some CPU time, and one comes every ten minutes.
const AT_ONCE: u32 = 4;

/// How far it is.
#[derive(Debug)]
pub(super) struct Tiers {
    /// Seconds from sample to sample in old blocks.
    seconds: f64,
    /// The block up to whose number all are thinned that may be. Begun with 0, it goes past what an earlier recorder thinned.
    thinned_to: u64,
    cost: ThinningCost,
}

/// CPU time of thinning so far, for the thread that records: it is no part of recording the present.
#[derive(Debug, Default, Clone)]
pub(super) struct ThinningCost(Arc<AtomicU64>);

impl ThinningCost {
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 * 1e-9
    }

    /// What is done, and the CPU time of this thread for it.
    fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = thread_usage();
        let done = work();
        self.0.fetch_add(((thread_usage() - before) * 1e9) as u64, Ordering::Relaxed);
        done
    }
}

impl Tiers {
    pub(super) fn new(seconds: f64, cost: ThinningCost) -> Self {
        Self { seconds, thinned_to: 0, cost }
    }

    /// Begins anew, when an incident is pinned no longer: its blocks are older than those that are thinned.
    pub(super) fn again(&mut self) {
        self.thinned_to = 0;
    }

    /// Thins old blocks until so many more bytes fit, or enough are thin: how many bytes that gave, and what went wrong.
    pub(super) fn thin(
        &mut self,
        folder: &Folder,
        incidents: &[Incident],
        (taken, size, limit): (u64, u64, u64),
    ) -> io::Result<(u64, Vec<String>)> {
        let (mut saved, mut wrong, mut rewritten) = (0_u64, Vec::new(), 0);
        let files = folder.list()?;
        let (blocks, of_pinned) = pins::loose(&files, incidents);
        let may_stay = limit.saturating_sub(of_pinned) / FINE_SHARE;
        let is_fine = |block: &&StoredFile| number(&block.name).is_some_and(|number| number > self.thinned_to);
        let fine: Vec<&StoredFile> = blocks.into_iter().filter(is_fine).collect();
        let mut of_fine: u64 = fine.iter().map(|block| block.bytes).sum();
        for block in fine {
            let fits = taken.saturating_sub(saved).saturating_add(size) <= limit;
            if fits || of_fine.saturating_add(size) <= may_stay || rewritten >= AT_ONCE {
                break;
            }
            match self.cost.of(|| self.rewrite(folder, block)) {
                Ok(Some(bytes)) => {
                    saved += bytes;
                    rewritten += 1;
                }
                Ok(None) => {}
                Err(error) => {
                    wrong.push(format!("{}: {error}", block.name));
                    rewritten += 1;
                }
            }
            of_fine = of_fine.saturating_sub(block.bytes);
            self.thinned_to = number(&block.name).unwrap_or(self.thinned_to);
        }
        Ok((saved, wrong))
    }

    /// The bytes that it takes less now; none if it is thin already, or would not become smaller.
    fn rewrite(&self, folder: &Folder, block: &StoredFile) -> io::Result<Option<u64>> {
        let header = header_of(&folder.read_start(&block.name, HEADER)?);
        if header.is_ok_and(|header| !header.is_finer(self.seconds)) {
            return Ok(None);
        }
        let bytes = folder.read(&block.name, MAX_FILE)?;
        let thin = thin_block(&bytes, self.seconds).map_err(io::Error::other)?;
        let Some(thin) = thin.filter(|thin| thin.len() < bytes.len()) else { return Ok(None) };
        // Under the same name: a reader finds the old one or the new one, after a power loss too.
        folder.replace(Path::new(&block.name), |out| out.write_all(&thin))?;
        Ok(Some(block.bytes.saturating_sub(thin.len() as u64)))
    }
}

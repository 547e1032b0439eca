//! Names for places in files, after the fact: for recordings of other tools, whose processes have long ended.

use std::path::{Component, Path};
use std::sync::Arc;

use super::named::Named;
use super::worker::{Detail, Of, Worker};
use super::{PATIENCE, kernel};
use crate::host::Host;
use rdiag_model::probe::Frame;

/// A reading of a large binary may take as many times the usual patience.
const LARGE: f64 = 6.0;

/// Looks places up, on a thread of its own: a file on a dead network mount costs its own names only.
#[derive(Debug)]
pub struct Files<'h> {
    host: &'h Host,
    worker: Option<Worker>,
    /// The kernel that was asked about, and why it is not this one, if so.
    kernel: Option<(Kernel, Option<String>)>,
}

/// A build id, and a function at its address.
type Kernel = (Option<Vec<u8>>, Option<(String, u64)>);

/// Whether a path is none of a program: it is relative, leads upwards, or to what the kernel makes.
fn is_absurd(path: &Path) -> bool {
    let mut parts = path.components();
    let is_kernels = |name: &std::ffi::OsStr| ["dev", "proc", "sys"].iter().any(|place| name == *place);
    !path.is_absolute()
        || parts.clone().any(|part| part == Component::ParentDir)
        || matches!(parts.nth(1), Some(Component::Normal(name)) if is_kernels(name))
}

impl<'h> Files<'h> {
    /// On this machine.
    #[must_use]
    pub fn new(host: &'h Host) -> Self {
        Self { host, worker: None, kernel: None }
    }

    /// The functions at these offsets of a file, outermost first; none where it has no name. Or why the file cannot be used.
    pub fn names(&mut self, path: &str, build_id: Option<&[u8]>, offsets: &[u64]) -> Result<Vec<Vec<Frame>>, String> {
        // The path comes from a file that is not trusted; no link on it is followed, and what it leads to is asked on that thread.
        if is_absurd(Path::new(path)) {
            return Err("it is no path of a program or library".to_owned());
        }
        let object = path.rsplit('/').next().unwrap_or_default().to_owned();
        let of = Of::File { path: Path::new(path).to_owned(), build_id: build_id.map(<[u8]>::to_vec) };
        let names = self.ask(of, offsets)?;
        let frame =
            |named: Named| Frame { name: named.name, object: Some(object.clone()), line: named.line, kernel: false };
        Ok(names.into_iter().map(|names| names.into_iter().map(frame).collect()).collect())
    }

    /// The functions at these addresses of the kernel, if the running one is the one that they come from: it has the same build id,
    /// and the same function at the same address.
    pub fn kernel_names(
        &mut self,
        build_id: Option<&[u8]>,
        landmark: Option<(&str, u64)>,
        addresses: &[u64],
    ) -> Result<Vec<Vec<Frame>>, String> {
        let asked = (build_id.map(<[u8]>::to_vec), landmark.map(|(name, address)| (name.to_owned(), address)));
        let why = match self.kernel.take() {
            Some((known, why)) if known == asked => why,
            _ => self.is_other_kernel(build_id, landmark).err(),
        };
        self.kernel = Some((asked, why.clone()));
        why.map_or(Ok(()), Err)?;
        let names = self.ask(Of::Kernel, addresses)?;
        let frame = |named: Named| Frame {
            name: named.name,
            object: Some(named.module.unwrap_or_else(|| kernel::OBJECT.to_owned())),
            line: named.line,
            kernel: true,
        };
        Ok(names.into_iter().map(|names| names.into_iter().map(frame).collect()).collect())
    }

    /// Whether names of the running kernel would be those of another.
    fn is_other_kernel(&self, build_id: Option<&[u8]>, landmark: Option<(&str, u64)>) -> Result<(), String> {
        if let Some(why) = kernel::hidden(self.host) {
            return Err(why);
        }
        let another = |what: &str| {
            format!("kernel functions have no names: {what}, so it was recorded on another kernel or boot")
        };
        if build_id.is_some_and(|id| kernel::build_id(self.host).is_some_and(|own| own != id)) {
            return Err(another("the build id of the running kernel is another"));
        }
        let Some((name, address)) = landmark else {
            return Err("kernel functions have no names: the file does not say where the kernel was".to_owned());
        };
        if kernel::address_of(self.host, name) != Some(address) {
            return Err(another("the running kernel is at other addresses"));
        }
        Ok(())
    }

    fn ask(&mut self, of: Of, places: &[u64]) -> Result<Vec<Vec<Named>>, String> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start().ok_or("no thread can be started")?,
        };
        if !worker.ask(of, None, places.to_vec(), Arc::default(), Detail::Line) {
            return Err("the thread that looks names up is gone".to_owned());
        }
        let answer = worker.answer(PATIENCE * LARGE).map_err(|_| "looking it up took too long".to_owned())?;
        self.worker = Some(worker);
        match answer.notes.into_iter().next() {
            Some(why) => Err(why),
            None => Ok(answer.names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_pipes_and_files_of_the_kernel_are_never_opened() {
        let host = Host::live(Path::new("/"));
        let mut files = Files::new(&host);
        for path in [
            "/dev/null",
            "/dev/watchdog",
            "/proc/kmsg",
            "//proc/self/exe",
            "/./proc/self/exe",
            "/tmp/../dev/null",
            "/tmp/..",
            "proc/self/exe",
            "",
        ] {
            let why = files.names(path, None, &[1]).unwrap_err();
            assert_eq!(why, "it is no path of a program or library", "{path}");
        }
        assert!(files.worker.is_none(), "nothing was asked");
        let why = |path| Files::new(&host).names(path, None, &[1]).unwrap_err();
        assert_eq!(why("/tmp"), "it is no regular file");
        assert!(why("/no/such/file").starts_with("No such file"), "{}", why("/no/such/file"));
    }
}

//! Files that must not be opened: whether any process has, as the kernel tells.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// The files, each by the number of its watch.
pub(super) struct Baits {
    watch: OwnedFd,
    files: BTreeMap<i32, PathBuf>,
}

impl Baits {
    /// Watches files, or devices. To find one without opening it (O_PATH) is not told.
    pub(super) fn at(files: &[&Path]) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let add = |file: &&Path| {
            (inotify::add_watch(&watch, *file, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap(), file.to_path_buf())
        };
        let files = files.iter().map(add).collect();
        Self { watch, files }
    }

    /// Those that were opened since, by a process that may have had its descriptor for that moment only.
    fn opened(&self) -> Vec<PathBuf> {
        let mut room = [MaybeUninit::uninit(); 1 << 14];
        let mut events = inotify::Reader::new(&self.watch, &mut room);
        let mut opened = Vec::new();
        while let Ok(event) = events.next() {
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "too many of them to tell which");
            opened.extend(self.files.get(&event.wd()).cloned());
        }
        opened
    }

    /// Fails if one was opened, and if that could not have been seen.
    pub(super) fn are_untouched(&self) {
        assert_eq!(self.opened(), Vec::<PathBuf>::new(), "opened");
        for file in self.files.values() {
            // Not to be read: /proc/kmsg gives each line once. Of a FIFO there is no writer.
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
            drop(rustix::fs::open(file, flags, rustix::fs::Mode::empty()).unwrap());
            assert_eq!(self.opened(), std::slice::from_ref(file), "this one's opening was not told");
        }
    }
}

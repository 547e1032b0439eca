//! The output folder of this process: one that was made for files of which none came is removed again.

use std::cell::RefCell;
use std::io;
use std::ops::Deref;
use std::path::Path;

use rdiag_kernel::host::files::{Folder, Made};

/// A folder that can be written. When it is dropped, it goes with those above it that were made for it, as far as they are empty.
#[derive(Debug)]
pub(in crate::cli) struct OwnFolder {
    folder: Folder,
    made: RefCell<Made>,
}

impl OwnFolder {
    /// Makes it, if it is not there, and proves that it can be written.
    pub(super) fn prepare(path: &Path) -> io::Result<Self> {
        let (folder, made) = Folder::prepare_anew(path)?;
        Ok(Self { folder, made: RefCell::new(made) })
    }

    /// It is that of another process from here on, which looks after it.
    pub(super) fn leave(&self) {
        self.made.borrow_mut().keep();
    }
}

impl Deref for OwnFolder {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(write: bool, leave: bool) -> bool {
        let place = tempfile::tempdir().unwrap();
        let own = OwnFolder::prepare(&place.path().join("a/b")).unwrap();
        if write {
            own.write(Path::new("x"), |file| file.write_all(b"x")).unwrap();
        }
        if leave {
            own.leave();
        }
        drop(own);
        assert!(place.path().exists(), "it was there before");
        let found = (place.path().join("a").exists(), place.path().join("a/b").exists());
        assert_eq!(found.0, found.1);
        found.0
    }

    #[test]
    fn what_was_made_and_is_empty_goes_unless_another_process_has_it() {
        assert!(!dropped(false, false));
        assert!(dropped(true, false));
        assert!(dropped(false, true));
        let place = tempfile::tempdir().unwrap();
        drop(OwnFolder::prepare(place.path()).unwrap());
        assert!(place.path().exists());
    }
}

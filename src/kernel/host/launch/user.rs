//! The user that a command runs as.
//!
//! The C library is not asked: in a static program it would load the host's modules for names, which are made for another C library, and
//! could end rdiag. `getent` of the host asks all that the host is configured to ask; without it, the files have to do.
#![expect(
    clippy::disallowed_methods,
    reason = "the accounts are those of this machine, whatever tree is looked at, and only a program of the host knows those of directories"
)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::{Command, Stdio};

use rustix::fs::{Gid, Uid};
use rustix::process::Signal;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Where it lies.
const GETENT: [&str; 2] = ["/usr/bin/getent", "/bin/getent"];

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: OsString,
    id: u32,
    group: u32,
    home: OsString,
}

impl User {
    /// The one with this number, if it is one, or else with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if let Ok(id) = name.parse() {
            return Self::with_id(id);
        }
        accounts(name)?.find(|user| user.name == name)
    }

    /// The one with this number.
    #[must_use]
    pub fn with_id(id: u32) -> Option<Self> {
        accounts(&id.to_string())?.find(|user| user.id == id)
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// What of the environment says who one is.
    pub(super) fn environment(&self) -> [(&'static str, OsString); 3] {
        [("HOME", self.home.clone()), ("USER", self.name.clone()), ("LOGNAME", self.name.clone())]
    }

    /// The arguments for the process that is to become this user.
    pub(super) fn identity(&self) -> Identity {
        let mut groups = vec![self.group];
        for group in self.groups() {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        Identity { user: self.id, group: self.group, groups }
    }

    /// The groups besides its own.
    fn groups(&self) -> Vec<u32> {
        if let Some(told) = getent("initgroups", &self.name) {
            // The name, and numbers.
            let told = String::from_utf8_lossy(&told).into_owned();
            return told.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        }
        members(&std::fs::read("/etc/group").unwrap_or_default(), self.name.as_bytes())
    }

    /// A line of /etc/passwd: `name:x:id:group:comment:home:shell`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let (id, group, home) = (number(fields.nth(1)?)?, number(fields.next()?)?, fields.nth(1)?);
        Some(Self { name: owned(name), id, group, home: owned(home) })
    }
}

fn owned(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The accounts among which one with this name or number is, if there is one.
fn accounts(key: &str) -> Option<impl Iterator<Item = User>> {
    let text = getent("passwd", key.as_ref()).or_else(|| std::fs::read("/etc/passwd").ok())?;
    let users: Vec<User> = text.split(|byte| *byte == b'\n').filter_map(User::parse).collect();
    Some(users.into_iter())
}

/// The groups of /etc/group (`group:x:id:name,name`) that list a user.
fn members(text: &[u8], name: &[u8]) -> Vec<u32> {
    let group = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b':').skip(2);
        let (id, names) = (number(fields.next()?)?, fields.next()?);
        names.split(|byte| *byte == b',').any(|member| member == name).then_some(id)
    };
    text.split(|byte| *byte == b'\n').filter_map(group).collect()
}

/// What the host says of a key in one of its data bases; none if it cannot be asked, or has no such key.
fn getent(database: &str, key: &OsStr) -> Option<Vec<u8>> {
    let program = GETENT.into_iter().find(|path| std::path::Path::new(path).exists())?;
    let mut asked = Command::new(program);
    asked.env_clear().args([database, "--"]).arg(key).stdin(Stdio::null()).stderr(Stdio::null());
    let output = asked.output().ok()?;
    output.status.success().then_some(output.stdout)
}

/// A user in numbers, as one word.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.user, self.group)?;
        self.groups.iter().try_for_each(|group| write!(f, ":{group}"))
    }
}

impl Identity {
    /// None if it is not one.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let mut numbers = word.split(':').map(|number| number.parse::<u32>());
        let (user, group) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { user, group, groups: numbers.collect::<Result<_, _>>().ok()? })
    }

    /// Becomes this user for good. To be called in a process with a single thread.
    pub(super) fn adopt(&self) -> rustix::io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        set_thread_groups(&groups)?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // The kernel clears it when the user changes.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_number_and_others_are_not() {
        let root = User::named("root").unwrap();
        assert_eq!((root.id(), root.name().as_str()), (0, "root"));
        assert_eq!(User::named("0").as_ref(), Some(&root));
        assert_eq!(User::with_id(0), Some(root));
        for name in ["no-such-user-anywhere", "", "4294967294", "-1", "--help", "ro\0ot", "ro\not"] {
            assert_eq!(User::named(name), None, "{name:?}");
        }
    }

    #[test]
    fn files_do_where_the_host_cannot_be_asked() {
        let line = b"web:x:1001:33:Web, with: a colon no:/srv/web:/bin/sh";
        assert_eq!(User::parse(line).map(|user| (user.id, user.group)), Some((1001, 33)));
        let user = User::parse(b"web:x:1001:33::/srv/web:/bin/sh").unwrap();
        assert_eq!((user.name(), user.home.to_str()), ("web".to_owned(), Some("/srv/web")));
        for line in ["", "web", "web:x:1001", ":x:1:1::/:", "web:x:-1:1::/:", "web:x:4294967296:1::/:", "web:x:1:1:"] {
            assert_eq!(User::parse(line.as_bytes()), None, "{line}");
        }
        let groups = b"root:x:0:\nadm:x:4:syslog,web\nweb:x:33:webby\nbad:x:y:web\nlast:x:7:web";
        assert_eq!(members(groups, b"web"), [4, 7]);
    }

    #[test]
    fn a_user_in_numbers_comes_back_from_one_word() {
        let root = User::named("root").unwrap().identity();
        assert!(root.groups.contains(&root.group));
        assert_eq!(Identity::parse(&root.to_string()), Some(root));
        for word in ["", "1", "1:", "x:1", "1:2:x", "1:2:-3", "-1:2"] {
            assert_eq!(Identity::parse(word), None, "{word}");
        }
    }
}

//! What is needed to bring the same exercise about again, and on what host it was.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::place::{Place, Run};
use super::{library, runner};
use rdiag_kernel::host::Host;
use rdiag_model::{Exercise, Facts};

/// How to start the same exercise again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Id of the scenario.
    pub scenario: String,
    /// Name of the variant.
    pub variant: String,
    /// What chose names and numbers.
    pub seed: u64,
    /// The command.
    pub command: String,
    /// The version of rdiag, which the choices depend on.
    pub version: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's architecture.
    pub architecture: String,
    /// CPUs that are online.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Recipe {
    /// Of an exercise on a host.
    #[must_use]
    pub fn of(run: &Run, facts: &Facts) -> Self {
        Self {
            scenario: run.scenario.clone(),
            variant: run.variant.clone(),
            seed: run.seed,
            command: format!("rdiag lab start {} --variant {} --seed {}", run.scenario, run.variant, run.seed),
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: facts.kernel.clone(),
            architecture: facts.arch.clone(),
            cpus: facts.cpus,
            memory_bytes: facts.memory_bytes,
        }
    }
}

/// The exercise that runs on this host at this moment, as a report may mention it: that of this user, or with sudo that of the user
/// who called it.
#[must_use]
pub fn under_way(host: &Host) -> Option<Exercise> {
    let here = Place::if_there().and_then(|place| kept_in(host, &place));
    here.or_else(|| {
        let user = std::env::var("SUDO_UID").ok().filter(|_| is_root())?.parse::<u32>().ok()?;
        let home = home_of(&host.read("etc/passwd").ok()?, user)?;
        of_user(host, &Place::of_other(&home)?, user)
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// sudo may keep HOME, so that the folder of this user is another user's.
fn kept_in(host: &Host, place: &Place) -> Option<Exercise> {
    match place.owner()? {
        user if user == rustix::process::geteuid().as_raw() => told(host, &place.run().ok()??),
        user => of_user(host, place, user),
    }
}

/// What a user other than this one has started. What they keep is not trusted: nothing of it gets any further than the choice among the
/// exercises of this program, a number, and a process that must be theirs.
fn of_user(host: &Host, place: &Place, user: u32) -> Option<Exercise> {
    let run = place.run_of_user(user)?;
    let keeper = run.keeper.as_ref()?;
    let status = host.read(&format!("proc/{}/status", keeper.pid)).ok()?;
    let owner = rdiag_proc::field(&status, "Uid:")?.split_whitespace().next()?.parse::<u32>().ok()?;
    if owner == user { told(host, &run) } else { None }
}

/// The home of a user in /etc/passwd.
fn home_of(passwd: &str, user: u32) -> Option<PathBuf> {
    let home = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(user)).then(|| fields.get(5).map(PathBuf::from))?
    };
    passwd.lines().find_map(home).filter(|home| home.is_absolute())
}

fn told(host: &Host, run: &Run) -> Option<Exercise> {
    if !runner::is_running(host, run) {
        return None;
    }
    let scenario = library::find(&run.scenario).ok()?;
    let variant = 1 + scenario.variants.iter().position(|variant| variant.name == run.variant)?;
    Some(Exercise {
        command: format!("rdiag lab start {} --variant {variant} --seed {}", scenario.id, run.seed),
        id: scenario.id,
        variant,
        seed: run.seed,
        whole: true,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use super::*;
    use rdiag_kernel::host::boot_id;
    use rdiag_own::Identity;

    const PASSWD: &str =
        "root:x:0:0::/root:/bin/sh\nbroken\nann:x:1000:1000:Ann:/home/ann:/bin/sh\nbob:x:1001:1001::home/bob:\n";

    fn run(scenario: &str, variant: &str) -> serde_json::Value {
        let keeper = Identity::own().unwrap();
        serde_json::json!({
            "scenario": scenario, "variant": variant, "seed": 7, "started": "", "boot": boot_id(), "until": 1e12, "scratch": "/",
            "keeper": keeper, "jobs": [], "baseline": {}, "answers": {}, "hints": 0, "checks": 0,
        })
    }

    #[test]
    fn the_home_of_a_user_is_an_absolute_path_or_none() {
        assert_eq!(home_of(PASSWD, 1000), Some(PathBuf::from("/home/ann")));
        assert_eq!([1001, 1002].map(|user| home_of(PASSWD, user)), [None, None]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a home of the test's own")]
    fn what_another_user_started_is_told_of_and_nothing_else_that_their_file_says() {
        let host = Host::live(Path::new("/"));
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".local/state/rdiag/lab");
        std::fs::create_dir_all(&folder).unwrap();
        let (file, place) = (folder.join("run.json"), Place::of_other(home.path()).unwrap());
        let own = rustix::process::geteuid().as_raw();
        let tell = |what: &[u8]| {
            let _ = std::fs::remove_file(&file);
            std::fs::write(&file, what).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            of_user(&host, &place, own)
        };
        let told = tell(run("33-missing", "licence").to_string().as_bytes()).unwrap();
        assert_eq!((told.id.as_str(), told.seed), ("33-missing", 7));
        assert_eq!(told.command, "rdiag lab start 33-missing --variant 1 --seed 7");
        assert_eq!(of_user(&host, &place, own + 1), None, "the file is not that user's");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(of_user(&host, &place, own), None, "any user may have written it");
        for (scenario, variant) in [("../../etc/passwd", "licence"), ("33-missing", "\u{1b}[2J"), ("", "")] {
            assert_eq!(tell(run(scenario, variant).to_string().as_bytes()), None, "{scenario:?}");
        }
        let mut ended = run("33-missing", "licence");
        ended["keeper"]["started"] = 1.into();
        assert_eq!(tell(ended.to_string().as_bytes()), None, "nothing watches over it any more");
        assert_eq!(tell(&vec![b' '; 1 << 20]), None);
        assert_eq!(tell(b"{\"scenario\": [["), None);
        // Neither a link nor what would block is opened to its end.
        let elsewhere = home.path().join("elsewhere");
        std::fs::write(&elsewhere, run("33-missing", "licence").to_string()).unwrap();
        std::fs::remove_file(&file).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert_eq!(of_user(&host, &place, own), None);
        std::fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &file,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(of_user(&host, &place, own), None);
    }
}

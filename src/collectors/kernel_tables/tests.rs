use super::*;
use crate::testing::{Story, gap, instances, stats};

const SHM: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      \
    ctime                   rss                  swap\n";
const SEM: &str = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n";
const MSG: &str = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      \
    ctime\n";

fn host() -> Story {
    let tree = Story::of_seconds(1);
    for (path, text) in [
        ("proc/key-users", "    0:    45 44/44 43/1000000 900/25000000\n 1000:     4 4/4 190/200 5000/20000\n"),
        ("proc/sysvipc/shm", SHM),
        ("proc/sysvipc/sem", SEM),
        ("proc/sysvipc/msg", MSG),
        ("proc/sys/kernel/shmmni", "4096\n"),
        ("proc/sys/kernel/shmall", "18446744073692774399\n"),
        ("proc/sys/kernel/sem", "32000\t1024000000\t500\t32000\n"),
        ("proc/sys/kernel/msgmni", "32000\n"),
        ("proc/sys/fs/mount-max", "100\n"),
        (
            "proc/self/mountinfo",
            "22 1 0:2 / / rw - ext4 /dev/vda rw\n23 22 0:3 / /a rw shared:1 - tmpfs tmpfs rw\n24 22 0:4 / /b rw - tmpfs tmpfs rw\n",
        ),
        ("proc/sys/kernel/pty/nr", "30\n"),
        ("proc/sys/kernel/pty/max", "40\n"),
        ("proc/sys/fs/aio-nr", "0\n"),
        ("proc/sys/fs/aio-max-nr", "65536\n"),
        ("etc/passwd", "root:x:0:0:\napp:x:1000:1000:\n"),
    ] {
        tree.put(path, text);
    }
    tree
}

#[test]
fn keys_are_those_that_count_for_the_user() {
    let metrics = host().metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "kernel.keys.ratio", "1000").last, 0.95);
    assert_eq!(stats(&metrics, "kernel.key_bytes.ratio", "1000").last, 0.25);
    assert_eq!(metrics.labels["key_user"]["1000"]["name"], "app");
    assert_eq!(stats(&metrics, "kernel.keys.count", "0").last, 43.0);
    let garbage = parse::key_users("x\n1:\n 5: 1 2/3 4/0 5/6\n 6: 1 2/3 x/9 5/6\n7: 1 1/1 2/3 4/5");
    assert_eq!(garbage.len(), 1, "{garbage:?}");
}

#[test]
fn objects_of_system_v_ipc_are_counted_against_each_of_their_limits() {
    let tree = host();
    let rows: String = (0..3).map(|id| format!("0 {id} 600 5000 77 77 0 1000 1000 1000 1000 0 0 0 0 0\n")).collect();
    tree.put("proc/sysvipc/shm", format!("{SHM}{rows}0 9 600 1 78 78 0 0 0 0 0 0 0 0 0 0\n0 9 600\n"));
    tree.put("proc/sysvipc/sem", format!("{SEM}0 1 600 7 0 0 0 0 0 0\n0 2 600 8 0 0 0 0 0 0\n"));
    tree.put("proc/77/comm", "postgres\n");
    let metrics = tree.metrics(&COLLECTOR);
    let count = |table: &str| stats(&metrics, "kernel.ipc.count", table).last;
    assert_eq!(count("shared memory segments"), 4.0);
    assert_eq!(count("shared memory pages"), 3.0 * 2.0 + 1.0);
    assert_eq!((count("semaphore sets"), count("semaphores"), count("message queues")), (2.0, 15.0, 0.0));
    assert_eq!(stats(&metrics, "kernel.ipc.ratio", "semaphore sets").last, 2.0 / 32_000.0);
    let labels = &metrics.labels["ipc_table"]["shared memory segments"];
    let label = |key: &str| labels[key].as_str();
    assert_eq!((label("limit"), label("name"), label("users")), ("kernel.shmmni", "user app", "3 of app, 1 of root"));
    assert_eq!((label("process"), label("pid")), ("postgres", "77"));
}

#[test]
fn none_of_three_users_with_as_many_objects_each_is_named_as_the_one_who_fills_the_table() {
    let tree = host();
    let rows: String =
        [1000, 2000, 3000].map(|uid| format!("0 {uid} 600 1 {uid} 77 0 {uid} 1 1 1 0 0 0 0 0\n")).concat();
    tree.put("proc/sysvipc/shm", format!("{SHM}{rows}"));
    tree.put("proc/1000/comm", "postgres\n");
    let metrics = tree.metrics(&COLLECTOR);
    let labels = &metrics.labels["ipc_table"]["shared memory segments"];
    assert_eq!(labels["users"], "1 of app, 1 of 2000, 1 of 3000");
    assert!(!labels.contains_key("name") && !labels.contains_key("process"), "{labels:?}");
}

#[test]
fn mounts_and_terminals_are_compared_with_their_limits() {
    let metrics = host().metrics(&COLLECTOR);
    assert_eq!(stats(&metrics, "filesystem.mounts.ratio", "").last, 0.03);
    assert_eq!(stats(&metrics, "filesystem.mounts_by.count", "tmpfs").last, 2.0);
    assert_eq!(stats(&metrics, "tasks.ptys.ratio", "").last, 0.75);
    assert_eq!(gap(&metrics, "fd.aio_process.bytes", "").reason, Reason::NotApplicable);
}

#[test]
fn who_holds_asynchronous_io_is_looked_for_near_its_limit() {
    let tree = host();
    tree.put("proc/sys/fs/aio-nr", "60000\n");
    for (pid, rings) in [(10, 1), (11, 3), (12, 0)] {
        let stat = format!("{pid} (db{pid}) S 1 1 1 0 -1 0 7 0 0 0 1 0 0 0 20 0 1 0 500 9 5 1\n");
        let ring = |number| format!("7f09c8a75000-7f09c8a77000 rw-s 00000000 00:0f {pid}{number} /[aio] (deleted)\n");
        let maps: String = (0..rings).map(ring).collect();
        tree.put(&format!("proc/{pid}/stat"), stat);
        tree.put(&format!("proc/{pid}/maps"), format!("5000-6000 r--p 0 00:01 7 /bin/db\n{maps}"));
    }
    let metrics = tree.metrics(&COLLECTOR);
    assert_eq!(instances(&metrics, "fd.aio_process.bytes"), ["10:500", "11:500"]);
    assert_eq!(stats(&metrics, "fd.aio_process.bytes", "11:500").last, 3.0 * 8192.0);
    assert_eq!(metrics.labels["process"]["11:500"]["name"], "db11");
}

#[test]
fn what_the_kernel_lacks_is_absent_and_garbage_is_malformed() {
    let mut tree = host();
    tree.put("proc/sysvipc/sem", "what\n").put("proc/sys/kernel/msgmni", "x\n");
    tree.fault("proc/key-users", Reason::Absent);
    tree.fault("proc/sys/kernel/pty/nr", Reason::Absent);
    tree.fault("proc/sys/fs/mount-max", Reason::Absent);
    let metrics = tree.metrics(&COLLECTOR);
    for (metric, instance, reason) in [
        ("kernel.keys.ratio", "", Reason::Absent),
        ("kernel.ipc.ratio", "semaphores", Reason::Malformed),
        ("kernel.ipc.ratio", "message queues", Reason::Malformed),
        ("filesystem.mounts.ratio", "", Reason::Absent),
        ("tasks.ptys.ratio", "", Reason::Absent),
    ] {
        assert_eq!(gap(&metrics, metric, instance).reason, reason, "{metric} {instance}");
    }
    assert_eq!(stats(&metrics, "kernel.ipc.count", "shared memory segments").last, 0.0);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in ".{0,200}") {
        let _ = (parse::key_users(&text), parse::mounts_by_kind(&text));
    }
}

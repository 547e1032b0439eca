//! What needs the hardware: caches, virtual machines. Where it is missing, the reason must be told.

use std::path::Path;
use std::process::{Command, Output};

use super::probing::{Script, ready, rows, watched};
use crate::support::{Need, alone, has, rdiag};

/// A shared mapping whose pages come into being one by one, each by a fault that the kernel counts as small.
const FAULTS: &str = "
import mmap
memory = mmap.mmap(-1, 5000 * 4096)
for i in range(5000): memory[i * 4096] = 1
";

#[test]
#[ignore = "needs: root, eBPF, python3"]
fn samples_of_two_events_by_process_stand_for_their_periods() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let mut script = Script::start(FAULTS);
    let params = ["uses=page-faults", "period=10", "misses=minor-faults", "miss_period=50"];
    let args = params.iter().fold(vec!["llcstat"], |mut args, param| {
        args.extend(["--param", param]);
        args
    });
    let (readings, _) = watched(&mut script, &args);
    let all = rows(&readings, "table", "processes");
    let [row] = &all[..] else { panic!("one row: {all:#?}") };
    // Each CPU has a part of a period left, and the interpreter has some pages of its own.
    for column in ["uses", "misses"] {
        let count = row[column].as_f64().unwrap();
        assert!((4800.0..=5400.0).contains(&count), "{column}: {row:#?}");
    }
}

#[test]
#[ignore = "needs: root, eBPF"]
fn the_last_cache_is_counted_or_the_reason_is_told() {
    let _alone = alone();
    if !ready() {
        return;
    }
    let output = rdiag().args(["probe", "llcstat", "--duration", "1s", "--format", "json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let readings = [serde_json::from_slice(&output.stdout).unwrap()];
        assert!(rows(&readings, "table", "processes").iter().any(|row| row["uses"].as_f64().unwrap() > 0.0));
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("cache-references") && told.contains("hardware counters"), "{told}");
}

/// A machine of one page: 101 writes to a port, with a halt before the last one and behind it. Between them this program runs.
const MACHINE: &str = r#"
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

int main(void)
{
	/* mov $100,%cx; 1: out %al,$16; loop 1b; hlt; out %al,$16; hlt */
	static const unsigned char code[] = { 0xb9, 100, 0, 0xe6, 16, 0xe2, 0xfc, 0xf4, 0xe6, 16, 0xf4 };
	int kvm = open("/dev/kvm", O_RDWR), vm = ioctl(kvm, KVM_CREATE_VM, 0), cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	void *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = { .guest_phys_addr = 4096, .memory_size = 4096, .userspace_addr = (unsigned long)memory };
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_run *run = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	struct kvm_regs regs = { .rip = 4096, .rflags = 2 };
	struct kvm_sregs sregs;
	int halts = 0, writes = 0;

	memcpy(memory, code, sizeof(code));
	ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region);
	ioctl(cpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	ioctl(cpu, KVM_SET_SREGS, &sregs);
	ioctl(cpu, KVM_SET_REGS, &regs);
	while (halts < 2) {
		if (ioctl(cpu, KVM_RUN, 0))
			return perror("KVM_RUN"), 1;
		if (run->exit_reason == KVM_EXIT_IO)
			writes++;
		else if (run->exit_reason == KVM_EXIT_HLT)
			halts++;
		else
			return fprintf(stderr, "exit %u\n", run->exit_reason), 1;
	}
	return writes != 101;
}
"#;

fn of_a_command(command: &Path) -> Output {
    let mut probe = rdiag();
    probe.args(["probe", "kvmexit", "--format", "json", "--budget", "100%", "--"]).arg(command);
    probe.output().unwrap()
}

#[test]
#[ignore = "needs: root, a kernel of the matrix with its modules, virtualization by the CPU, cc"]
fn vm_exits_of_a_virtual_machine_are_told_by_reason_and_where_there_is_no_kvm_that_is_said() {
    let _alone = alone();
    if !ready() || !has(&[Need::Tool("modprobe"), Need::Tool("cc")]) {
        return;
    }
    // Those of this CPU are loaded when it is found.
    for module in ["kvm_amd", "kvm_intel", "kvm"] {
        let _ = Command::new("modprobe").args(["--remove", module]).output();
    }
    let refused = of_a_command(Path::new("true"));
    let told = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{told}");
    assert!(told.contains("kvm:kvm_exit") && told.contains("kvm_intel or kvm_amd"), "{told}");
    for module in ["kvm_amd", "kvm_intel"] {
        let _ = Command::new("modprobe").arg(module).output();
    }
    if !has(&[Need::Path("/dev/kvm")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, machine) = (folder.path().join("machine.c"), folder.path().join("machine"));
    std::fs::write(&source, MACHINE).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&machine).arg(&source).status().unwrap().success());
    let output = of_a_command(&machine);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let readings = [serde_json::from_slice(&output.stdout).unwrap()];
    let all = rows(&readings, "table", "exits");
    let count = |reasons: [&str; 2]| {
        let row = all.iter().find(|row| reasons.iter().any(|reason| row["reason"] == *reason));
        row.unwrap_or_else(|| panic!("{reasons:?}: {all:#?}"))["count"].as_f64().unwrap()
    };
    // After the second halt it is never entered again.
    assert_eq!((count(["IOIO", "IO_INSTRUCTION"]), count(["HLT", "HLT"])), (101.0, 1.0), "{all:#?}");
    assert!(all.iter().all(|row| row["name"] == "machine" && row["time"].as_f64().unwrap() > 0.0), "{all:#?}");
}

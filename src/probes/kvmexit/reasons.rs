//! Names of the reasons for which a CPU leaves a guest, as the manuals of the two makers number them (Intel SDM volume 3D, appendix C;
//! AMD APM volume 2, appendix C), under the names that the kernel has for them.

/// How a guest is run, as the kernel numbers it in its event.
const VMX: u64 = 1;
const SVM: u64 = 2;

/// By number, from 0 on; `-` has none.
const OF_VMX: &str = "EXCEPTION_NMI EXTERNAL_INTERRUPT TRIPLE_FAULT INIT_SIGNAL SIPI_SIGNAL - - INTERRUPT_WINDOW NMI_WINDOW \
    TASK_SWITCH CPUID - HLT INVD INVLPG RDPMC RDTSC - VMCALL VMCLEAR VMLAUNCH VMPTRLD VMPTRST VMREAD VMRESUME \
    VMWRITE VMOFF VMON CR_ACCESS DR_ACCESS IO_INSTRUCTION MSR_READ MSR_WRITE INVALID_STATE MSR_LOAD_FAIL - \
    MWAIT_INSTRUCTION MONITOR_TRAP_FLAG - MONITOR_INSTRUCTION PAUSE_INSTRUCTION MCE_DURING_VMENTRY - \
    TPR_BELOW_THRESHOLD APIC_ACCESS EOI_INDUCED GDTR_IDTR LDTR_TR EPT_VIOLATION EPT_MISCONFIG INVEPT RDTSCP \
    PREEMPTION_TIMER INVVPID WBINVD XSETBV APIC_WRITE RDRAND INVPCID VMFUNC ENCLS RDSEED PML_FULL XSAVES XRSTORS - - \
    UMWAIT TPAUSE - - - - - BUS_LOCK NOTIFY - TDCALL";

/// From 0x60 on.
const OF_SVM: &str = "INTR NMI SMI INIT VINTR CR0_SEL_WRITE IDTR_READ GDTR_READ LDTR_READ TR_READ IDTR_WRITE GDTR_WRITE LDTR_WRITE \
    TR_WRITE RDTSC RDPMC PUSHF POPF CPUID RSM IRET SWINT INVD PAUSE HLT INVLPG INVLPGA IOIO MSR TASK_SWITCH \
    FERR_FREEZE SHUTDOWN VMRUN VMMCALL VMLOAD VMSAVE STGI CLGI SKINIT RDTSCP ICEBP WBINVD MONITOR MWAIT MWAIT_COND \
    XSETBV RDPRU EFER_WRITE_TRAP CR0_WRITE_TRAP CR1_WRITE_TRAP CR2_WRITE_TRAP CR3_WRITE_TRAP CR4_WRITE_TRAP \
    CR5_WRITE_TRAP CR6_WRITE_TRAP CR7_WRITE_TRAP CR8_WRITE_TRAP CR9_WRITE_TRAP CR10_WRITE_TRAP CR11_WRITE_TRAP \
    CR12_WRITE_TRAP CR13_WRITE_TRAP CR14_WRITE_TRAP CR15_WRITE_TRAP INVLPGB INVLPGB_ILLEGAL INVPCID MCOMMIT TLBSYNC \
    BUS_LOCK IDLE_HLT";

/// The name of a reason; its number where it has none.
pub(super) fn name(isa: u64, reason: u64) -> String {
    let found = match isa {
        // The upper half are marks beside the reason.
        VMX => nth(OF_VMX, reason & 0xffff),
        SVM => of_svm(reason),
        _ => None,
    };
    found.unwrap_or_else(|| format!("reason {reason:#x}"))
}

fn nth(names: &str, at: u64) -> Option<String> {
    let name = names.split(' ').nth(usize::try_from(at).ok()?)?;
    (name != "-").then(|| name.to_owned())
}

fn of_svm(reason: u64) -> Option<String> {
    let low = reason & 0xf;
    match reason {
        0..=0x0f => Some(format!("READ_CR{low}")),
        0x10..=0x1f => Some(format!("WRITE_CR{low}")),
        0x20..=0x2f => Some(format!("READ_DR{low}")),
        0x30..=0x3f => Some(format!("WRITE_DR{low}")),
        0x40..=0x5f => Some(format!("EXCEPTION_{}", reason - 0x40)),
        0x400 => Some("NPF".into()),
        0x401 => Some("AVIC_INCOMPLETE_IPI".into()),
        0x402 => Some("AVIC_UNACCELERATED_ACCESS".into()),
        0x403 => Some("VMGEXIT".into()),
        _ => nth(OF_SVM, reason.checked_sub(0x60)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_both_makers_have_the_names_of_their_manuals() {
        for (reason, told) in [
            (0, "EXCEPTION_NMI"),
            (1, "EXTERNAL_INTERRUPT"),
            (10, "CPUID"),
            (12, "HLT"),
            (18, "VMCALL"),
            (30, "IO_INSTRUCTION"),
            (32, "MSR_WRITE"),
            (40, "PAUSE_INSTRUCTION"),
            (48, "EPT_VIOLATION"),
            (49, "EPT_MISCONFIG"),
            (52, "PREEMPTION_TIMER"),
            (56, "APIC_WRITE"),
            (62, "PML_FULL"),
            (67, "UMWAIT"),
            (74, "BUS_LOCK"),
            (77, "TDCALL"),
            // Entering had failed.
            (0x8000_0021, "INVALID_STATE"),
            (5, "reason 0x5"),
            (900, "reason 0x384"),
        ] {
            assert_eq!(name(VMX, reason), told);
        }
        for (reason, told) in [
            (0x03, "READ_CR3"),
            (0x14, "WRITE_CR4"),
            (0x4e, "EXCEPTION_14"),
            (0x60, "INTR"),
            (0x64, "VINTR"),
            (0x72, "CPUID"),
            (0x77, "PAUSE"),
            (0x78, "HLT"),
            (0x7b, "IOIO"),
            (0x7c, "MSR"),
            (0x7f, "SHUTDOWN"),
            (0x81, "VMMCALL"),
            (0x8d, "XSETBV"),
            (0x90, "CR0_WRITE_TRAP"),
            (0x9f, "CR15_WRITE_TRAP"),
            (0xa2, "INVPCID"),
            (0xa6, "IDLE_HLT"),
            (0x400, "NPF"),
            (u64::from(u32::MAX), "reason 0xffffffff"),
        ] {
            assert_eq!(name(SVM, reason), told);
        }
        assert_eq!(name(3, 1), "reason 0x1");
    }
}

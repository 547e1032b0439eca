//! What only a process that lives can tell is asked for while the probe runs: names of functions and variables, callers, interpreters.

use std::collections::HashSet;

use super::Response;
use super::kernel::{self, Met};
use super::record::Record;
use super::steps::Completed;
use rdiag_kernel::host::Host;
use rdiag_kernel::mechanism::ebpf::Object;
use rdiag_kernel::mechanism::symbols::{Process, Symbols, calls as call_sites};
use rdiag_model::Unavailable;

impl Response {
    /// Reads the stacks of a thread and asks for their names.
    pub(super) fn learn(&mut self, host: &Host, record: &Record) -> Result<(), Unavailable> {
        let (mut ours, mut met) = (Vec::new(), Met::default());
        met.stacks.extend((record.parked != 0).then_some(record.parked));
        for cell in &record.cells {
            let [of, top, _] = cell.object;
            ours.extend(self.stacks.learn(&self.object, cell.stack).map(<[u64]>::to_vec));
            met.add(cell.kind, of, top);
        }
        self.symbols.learn(host, None, ours.iter().flat_map(|stack| call_sites(None, stack)));
        self.learn_met(host, record.process(), met)
    }

    /// Asks for the names of user stacks and of variables: a process may be gone when the window ends.
    fn learn_met(&mut self, host: &Host, process: Process, met: Met) -> Result<(), Unavailable> {
        for name in met.stacks {
            let stack = self.stacks.learn(&self.object, name).map(<[u64]>::to_vec).unwrap_or_default();
            self.interpreters.name(&self.object, &mut self.symbols, process, &stack);
            self.symbols.learn(host, Some(process), call_sites(Some(process), &stack));
        }
        for word in met.parked_for {
            self.interpreters.machines.name(&self.object, &mut self.symbols, process, word);
        }
        if !met.futexes.is_empty() {
            self.tops.ask(&mut self.object, host, &mut self.symbols, process)?;
            self.tops.learn(&self.object, host, &mut self.symbols, process, met.tops);
            self.symbols.learn_variables(host, process, met.futexes);
        }
        Ok(())
    }

    /// The same for what live threads have met so far.
    pub(super) fn look(&mut self, host: &Host) -> Result<(), Unavailable> {
        self.interpreters.machines.look(&self.object);
        let mut looked_at = self.running_code.processes();
        looked_at.iter().for_each(|process| self.interpreters.ask(&self.object, host, &mut self.symbols, *process));
        for slot in 0..self.room.threads {
            if let Some((record, mut met)) = kernel::met(&self.object, slot)? {
                let process = record.process();
                if (record.slept() || !met.stacks.is_empty()) && looked_at.insert(process) {
                    self.interpreters.ask(&self.object, host, &mut self.symbols, process);
                }
                if record.slept() {
                    self.interpreters.ask_parked(&mut self.symbols, process);
                    let whose = self.interpreters.whose(host, process);
                    self.steps.ask_asleep((host, &mut self.symbols), &mut self.stacks, &record, whose);
                }
                met.stacks.retain(|name| self.stacks.get(*name).is_none());
                self.learn_met(host, process, met)?;
            }
        }
        Ok(())
    }

    /// Processes that are there already need not wait for the first look.
    pub(super) fn ask_interpreters(&mut self, host: &Host, pids: &[u32]) {
        for process in pids.iter().filter_map(|pid| Process::of(host, *pid)) {
            self.interpreters.ask(&self.object, host, &mut self.symbols, process);
        }
    }

    /// The same for the code in which they were met on a CPU.
    pub(super) fn learn_running(&mut self, host: &Host) -> Result<(), Unavailable> {
        let starter = self.settings.starter;
        let stacks = self.running_code.take(&mut self.object, host, &mut self.symbols, &mut self.stacks, starter)?;
        for (process, name) in stacks {
            let stack = self.stacks.get(name).map(<[u64]>::to_vec).unwrap_or_default();
            self.interpreters.name(&self.object, &mut self.symbols, process, &stack);
            self.symbols.learn_functions(host, Some(process), call_sites(Some(process), &stack));
        }
        Ok(())
    }

    /// Has stacks walked on that end where the programs knew no more, and asks for the names on those that were.
    pub(super) fn complete_stacks(&mut self, host: &Host) -> Result<(), Unavailable> {
        let (interpreters, mut asked) = (&mut self.interpreters, HashSet::new());
        let whose = |object: &Object, symbols: &mut Symbols, process: Process| {
            if asked.insert(process) {
                interpreters.ask(object, host, symbols, process);
            }
            interpreters.whose(host, process)
        };
        let complete = self.steps.take(&mut self.object, host, &mut self.symbols, &mut self.stacks, whose)?;
        for Completed { process, name, is_running } in complete {
            let stack = self.stacks.get(name).unwrap_or_default();
            self.interpreters.name(&self.object, &mut self.symbols, process, stack);
            if is_running {
                self.symbols.learn_functions(host, Some(process), call_sites(Some(process), stack));
            } else {
                self.symbols.learn(host, Some(process), call_sites(Some(process), stack));
            }
        }
        Ok(())
    }
}

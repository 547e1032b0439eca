//! Reading maps. Keys and values are arrays of words, so that no struct has to be mirrored byte by byte.

use aya::Pod;
use aya::maps::{
    Array, HashMap, Map, MapData, PerCpuArray, PerCpuHashMap, PerCpuValues, Queue, RingBuf, StackTraceMap,
};

use super::hist::{self, Hist};
use super::{Object, error};
use rdiag_model::{Reason, Unavailable};

fn absent(name: &str) -> Unavailable {
    Unavailable::new(Reason::Malformed, format!("the object has no map {name}; this is a defect of rdiag"))
}

impl Object {
    /// The sum over all CPUs of a per-CPU array's entry that holds a `struct hist`, which is set back to 0.
    pub fn take_hist(&mut self, name: &str, index: u32) -> Result<Hist, Unavailable> {
        Ok(hist::sum(&self.take_hists(name, index)?))
    }

    /// The same, one for each CPU that the machine may have, in order.
    ///
    /// No two maps are read at one instant, nor is an entry read and set back in one step: events go on meanwhile, and are in one map and
    /// not in the other, or in none. That is some microseconds' worth on a machine, more where CPUs are emulated. Detaching the programs
    /// before the last reading would cure only that reading, and take with it the account of what they cost.
    pub fn take_hists(&mut self, name: &str, index: u32) -> Result<Vec<Hist>, Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut array: PerCpuArray<&mut MapData, Hist> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let copies = array.get(&index, 0).map_err(|e| error::of_map(name, &e))?;
        let zeros =
            PerCpuValues::try_from(vec![[0; hist::WORDS]; copies.len()]).map_err(|e| error::of_map(name, &e))?;
        array.set(index, zeros, 0).map_err(|e| error::of_map(name, &e))?;
        Ok(copies.iter().copied().collect())
    }

    /// The sums over all CPUs of a per-CPU array's entries that are one word each, which are set back to 0.
    pub fn take_counts(&mut self, name: &str) -> Result<Vec<u64>, Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut array: PerCpuArray<&mut MapData, u64> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let mut counts = Vec::new();
        for index in 0..array.len() {
            let copies = array.get(&index, 0).map_err(|e| error::of_map(name, &e))?;
            let zeros = PerCpuValues::try_from(vec![0; copies.len()]).map_err(|e| error::of_map(name, &e))?;
            array.set(index, zeros, 0).map_err(|e| error::of_map(name, &e))?;
            counts.push(copies.iter().sum());
        }
        Ok(counts)
    }

    /// The sums over all CPUs of a per-CPU array's entries that are one word each, since it was loaded.
    pub fn counts(&mut self, name: &str) -> Result<Vec<u64>, Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let array: PerCpuArray<&mut MapData, u64> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let sum = |index| array.get(&index, 0).map(|copies| copies.iter().sum());
        (0..array.len()).map(|index| sum(index).map_err(|e| error::of_map(name, &e))).collect()
    }

    /// The value of one key of a hash map; none if it is not there.
    pub fn hash_value<K: Pod, V: Pod>(&self, name: &str, key: &K) -> Option<V> {
        let hash: HashMap<&MapData, K, V> = self.ebpf.map(name)?.try_into().ok()?;
        hash.get(key, 0).ok()
    }

    /// All entries of a hash map, which is emptied. Entries that come while it is read may be missed or kept.
    pub fn take_hash<K: Pod + Eq, V: Pod>(&mut self, name: &str) -> Result<Vec<(K, V)>, Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut hash: HashMap<&mut MapData, K, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let mut entries = Vec::new();
        // A key that was removed meanwhile is no error: an entry less.
        for key in hash.keys().flatten().collect::<Vec<K>>() {
            if let Ok(value) = hash.get(&key, 0) {
                entries.push((key, value));
            }
            let _ = hash.remove(&key);
        }
        Ok(entries)
    }

    /// All entries of a per-CPU hash map, one value for each CPU; the map is emptied.
    pub fn take_per_cpu_hash<K: Pod + Eq, V: Pod>(&mut self, name: &str) -> Result<Vec<(K, Vec<V>)>, Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut hash: PerCpuHashMap<&mut MapData, K, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let mut entries = Vec::new();
        for key in hash.keys().flatten().collect::<Vec<K>>() {
            if let Ok(values) = hash.get(&key, 0) {
                entries.push((key, values.iter().copied().collect()));
            }
            let _ = hash.remove(&key);
        }
        Ok(entries)
    }

    /// One value of an array.
    pub fn element<V: Pod>(&self, name: &str, index: u32) -> Result<V, Unavailable> {
        let map = self.ebpf.map(name).ok_or_else(|| absent(name))?;
        let array: Array<&MapData, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        array.get(&index, 0).map_err(|e| error::of_map(name, &e))
    }

    /// Sets one value of an array.
    pub fn set_element<V: Pod>(&mut self, name: &str, index: u32, value: V) -> Result<(), Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut array: Array<&mut MapData, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        array.set(index, value, 0).map_err(|e| error::of_map(name, &e))
    }

    /// Sets one value of a hash map.
    pub fn set_hash_value<K: Pod, V: Pod>(&mut self, name: &str, key: &K, value: V) -> Result<(), Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut hash: HashMap<&mut MapData, K, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        hash.insert(key, value, 0).map_err(|e| error::of_map(name, &e))
    }

    /// Removes a key from a hash map; one that is not there is no error.
    pub fn forget<K: Pod, V: Pod>(&mut self, name: &str, key: &K) -> Result<(), Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut hash: HashMap<&mut MapData, K, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let _ = hash.remove(key);
        Ok(())
    }

    /// Puts values into a queue; those that find no room are left out.
    pub fn push(&mut self, name: &str, values: impl IntoIterator<Item = u32>) -> Result<(), Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut queue: Queue<&mut MapData, u32> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        for value in values {
            if queue.push(value, 0).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Takes the values out of a queue, at most `most` of them, oldest first.
    pub fn pop(&mut self, name: &str, most: usize) -> Result<Vec<u32>, Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut queue: Queue<&mut MapData, u32> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        Ok(std::iter::from_fn(|| queue.pop(0).ok()).take(most).collect())
    }

    /// One value of a per-CPU array, for each CPU. Nothing is changed: for counters that only grow.
    pub fn per_cpu_element<V: Pod>(&self, name: &str, index: u32) -> Result<Vec<V>, Unavailable> {
        let map = self.ebpf.map(name).ok_or_else(|| absent(name))?;
        let array: PerCpuArray<&MapData, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        Ok(array.get(&index, 0).map_err(|e| error::of_map(name, &e))?.iter().copied().collect())
    }

    /// Sets one value of a per-CPU array, for each CPU that the machine may have.
    pub fn set_per_cpu_element<V: Pod>(&mut self, name: &str, index: u32, values: Vec<V>) -> Result<(), Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut array: PerCpuArray<&mut MapData, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let values = PerCpuValues::try_from(values).map_err(|e| error::of_map(name, &e))?;
        array.set(index, values, 0).map_err(|e| error::of_map(name, &e))
    }

    /// All entries of a hash map, which keeps them.
    pub fn hash<K: Pod, V: Pod>(&self, name: &str) -> Result<Vec<(K, V)>, Unavailable> {
        let map = self.ebpf.map(name).ok_or_else(|| absent(name))?;
        let hash: HashMap<&MapData, K, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        Ok(hash.iter().flatten().collect())
    }

    /// All entries of a per-CPU hash map, one value for each CPU; the map keeps them.
    pub fn per_cpu_hash<K: Pod, V: Pod>(&self, name: &str) -> Result<Vec<(K, Vec<V>)>, Unavailable> {
        let map = self.ebpf.map(name).ok_or_else(|| absent(name))?;
        let hash: PerCpuHashMap<&MapData, K, V> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        Ok(hash.iter().flatten().map(|(key, values)| (key, values.iter().copied().collect())).collect())
    }

    /// What a ring buffer holds, record by record, at most `most` of them.
    pub fn drain(&mut self, name: &str, most: usize, mut each: impl FnMut(&[u8])) -> Result<usize, Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut ring: RingBuf<&mut MapData> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let mut taken = 0;
        while taken < most {
            let Some(record) = ring.next() else { break };
            each(&record);
            taken += 1;
        }
        Ok(taken)
    }

    /// The same as long as records have `most` bytes together, and one more record.
    pub fn drain_bytes(&mut self, name: &str, most: usize, mut each: impl FnMut(&[u8])) -> Result<(), Unavailable> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| absent(name))?;
        let mut ring: RingBuf<&mut MapData> = map.try_into().map_err(|e| error::of_map(name, &e))?;
        let mut taken = 0;
        while taken < most {
            let Some(record) = ring.next() else { break };
            each(&record);
            taken += record.len().max(1);
        }
        Ok(())
    }

    /// The addresses of a stack, innermost first; none where it could not be kept.
    pub fn stack(&self, name: &str, id: u32) -> Option<Vec<u64>> {
        let map: &Map = self.ebpf.map(name)?;
        let stacks: StackTraceMap<&MapData> = map.try_into().ok()?;
        let trace = stacks.get(&id, 0).ok()?;
        Some(trace.frames().iter().map(|frame| frame.ip).collect())
    }
}

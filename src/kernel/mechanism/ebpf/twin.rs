//! An array of an object in the hands of another thread.

use std::os::fd::AsFd as _;

use aya::Pod;
use aya::maps::{Array, Map, MapData, MapError, PerCpuArray};

use super::Object;

/// Another handle of an array: what is written through one is read through the other, and by the programs.
#[derive(Debug)]
pub struct Twin(Map);

impl Object {
    /// The array of this name for another thread; none where there is no such array, or no descriptor left.
    pub fn twin(&self, name: &str) -> Option<Twin> {
        let copy = |data: &MapData| MapData::from_fd(data.fd().as_fd().try_clone_to_owned().ok()?).ok();
        match self.ebpf.map(name)? {
            Map::Array(data) => copy(data).map(Map::Array).map(Twin),
            Map::PerCpuArray(data) => copy(data).map(Map::PerCpuArray).map(Twin),
            _ => None,
        }
    }
}

impl Twin {
    /// The sum over all CPUs of the first value of a per-CPU array of words.
    pub fn count(&self) -> Result<u64, MapError> {
        let array: PerCpuArray<&MapData, u64> = (&self.0).try_into()?;
        Ok(array.get(&0, 0)?.iter().sum())
    }

    /// Sets one value of an array.
    pub fn set<V: Pod>(&mut self, index: u32, value: V) -> Result<(), MapError> {
        let mut array: Array<&mut MapData, V> = (&mut self.0).try_into()?;
        array.set(index, value, 0)
    }
}

//! A stream of recordings, held from where the last one ended: what turns out to be damaged is gone through again.

use std::io::{self, BufRead, Read};

use rdiag_session::{ArmorKind, LARGEST};

/// A recording is no larger, packed and unpacked.
pub(super) const MOST: u64 = LARGEST;
/// How each packed recording begins: the magic number of gzip, and its only method.
pub(super) const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// Bytes by which the beginning of a recording is known, packed or as text.
const TELLING: usize = 8;
/// Bytes that are read at once.
const CHUNK: usize = 1 << 16;

/// What was read since the last piece, with a place in it.
pub(super) struct HoldingReader<R> {
    from: R,
    held: Vec<u8>,
    /// Where the piece begins.
    begin: usize,
    at: usize,
}

impl<R: Read> HoldingReader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, held: Vec::new(), begin: 0, at: 0 }
    }

    /// What was passed over.
    pub(super) fn passed(&self) -> &[u8] {
        self.held.get(self.begin..self.at).unwrap_or_default()
    }

    /// The next piece begins here. What is behind is moved when that is no more than was passed: not with each piece.
    pub(super) fn forget(&mut self) {
        self.at = self.at.min(self.held.len());
        self.begin = self.at;
        if self.begin >= self.held.len() / 2 {
            self.held.drain(..self.begin);
            (self.begin, self.at) = (0, 0);
        }
    }

    pub(super) fn skip_space(&mut self) -> io::Result<()> {
        loop {
            let space = self.fill_buf()?.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if space == 0 {
                return Ok(());
            }
            self.consume(space);
            self.forget();
        }
    }

    /// Goes on to the next packed or armored recording behind the first byte that is held, or to the end; to the `last` that begins in what
    /// was passed over, if there is one.
    pub(super) fn next_packed(&mut self, last: bool) -> io::Result<()> {
        let second = self.begin + 1;
        self.at = if last {
            (second..self.at).rev().find(|at| self.begins(*at)).unwrap_or(self.at.max(second))
        } else {
            second
        };
        self.forget();
        loop {
            if let Some(at) = (self.begin..self.held.len()).find(|at| self.begins(*at)) {
                self.at = at;
                self.forget();
                return Ok(());
            }
            // What may be the beginning of one is kept.
            self.at = self.begin.max(self.held.len().saturating_sub(TELLING - 1));
            self.forget();
            if self.more()? == 0 {
                self.held.clear();
                (self.begin, self.at) = (0, 0);
                return Ok(());
            }
        }
    }

    /// Whether a recording begins at a place, packed or as text.
    fn begins(&self, at: usize) -> bool {
        let text = self.held.get(at..).unwrap_or_default();
        text.starts_with(&MAGIC) || ArmorKind::of(text) == ArmorKind::First
    }

    fn more(&mut self) -> io::Result<usize> {
        if (self.held.len() - self.begin) as u64 > MOST {
            return Err(io::Error::other(format!("it is larger than {} MiB", MOST >> 20)));
        }
        let before = self.held.len();
        self.held.resize(before + CHUNK, 0);
        let read = loop {
            match self.from.read(self.held.get_mut(before..).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.held.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }
}

impl<R: Read> Read for HoldingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: Read> BufRead for HoldingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.held.len() {
            self.more()?;
        }
        Ok(self.held.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_is_not_moved_with_each_piece() {
        let mut reader = HoldingReader::new(io::empty());
        reader.held = vec![0; 1 << 20];
        reader.at = 10;
        reader.forget();
        assert_eq!((reader.begin, reader.held.len(), reader.passed().len()), (10, 1 << 20, 0));
        reader.at = 600 << 10;
        assert_eq!(reader.passed().len(), (600 << 10) - 10);
        reader.forget();
        assert_eq!((reader.begin, reader.at, reader.held.len()), (0, 0, 424 << 10));
    }
}

//! Objects as ROOT streams them: counted versions, names, and arrays of objects with classes.

use crate::{
    Refusal,
    cursor::{Cursor, count},
};

/// The bit that marks a count of bytes, in a version word and in front of an object of an array.
const BYTE_COUNT: u32 = 1 << 30;

/// The bit that marks a reference to a class named before.
const CLASS_REFERENCE: u32 = 1 << 31;

/// The tag of an object whose class is named here for the first time.
const NEW_CLASS: u32 = u32::MAX;

/// The bit of a `TObject` that two more bytes follow.
const IS_REFERENCED: u32 = 1 << 4;

/// A version word in front of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) number: u16,
    /// End of the object, if its length is stated.
    end: Option<usize>,
}

impl Version {
    pub(crate) fn read(from: &mut Cursor<'_>) -> Result<Self, Refusal> {
        let mut ahead = *from;
        let word = ahead.u32()?;
        if word & BYTE_COUNT == 0 {
            return Ok(Self { number: from.u16()?, end: None });
        }
        *from = ahead;
        let end = from.position() + (word & !BYTE_COUNT) as usize;
        Ok(Self { number: from.u16()?, end: Some(end) })
    }

    /// Goes to the end of the object.
    pub(crate) fn leave(self, from: &mut Cursor<'_>) -> Result<(), Refusal> {
        from.go_to(self.end.ok_or(Refusal::Damaged("an object without a length"))?)
    }

    pub(crate) fn skip_object(from: &mut Cursor<'_>) -> Result<(), Refusal> {
        Self::read(from)?.leave(from)
    }
}

fn skip_tobject(from: &mut Cursor<'_>) -> Result<(), Refusal> {
    from.skip(2 + 4)?;
    let bits = from.u32()?;
    from.skip(if bits & IS_REFERENCED == 0 { 0 } else { 2 })
}

/// Reads a `TNamed`; returns the name.
pub(crate) fn named<'a>(from: &mut Cursor<'a>) -> Result<&'a [u8], Refusal> {
    let version = Version::read(from)?;
    skip_tobject(from)?;
    let name = from.string()?;
    version.leave(from)?;
    Ok(name)
}

/// Reads an object of a class, from its version word on.
type Visit<'v, 'a> = dyn FnMut(&mut Classes<'a>, &'a [u8], &mut Cursor<'a>) -> Result<(), Refusal> + 'v;

/// The classes named so far in a record, by the position that references to them state.
pub(crate) struct Classes<'a> {
    /// References count from the beginning of the key, which is not part of the inflated object.
    key_len: usize,
    named: Vec<(usize, &'a [u8])>,
}

impl<'a> Classes<'a> {
    pub(crate) const fn new(key_len: u16) -> Self {
        Self { key_len: key_len as usize, named: Vec::new() }
    }

    /// Reads a `TObjArray`. Calls `visit` for each object whose class is known, at its version word.
    pub(crate) fn each_of_array(&mut self, from: &mut Cursor<'a>, visit: &mut Visit<'_, 'a>) -> Result<(), Refusal> {
        let version = Version::read(from)?;
        skip_tobject(from)?;
        from.string()?;
        let slots = count(from.i32()?)?;
        from.skip(4)?;
        for _ in 0..slots {
            let word = from.u32()?;
            if word & BYTE_COUNT == 0 {
                continue;
            }
            let end = from.position() + (word & !BYTE_COUNT) as usize;
            let class = self.class(from)?;
            if let Some(class) = class {
                visit(self, class, from)?;
            }
            from.go_to(end)?;
        }
        version.leave(from)
    }

    /// The class of an object, unless it was named first in a part that was skipped.
    fn class(&mut self, from: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Refusal> {
        let tag_position = self.key_len + from.position();
        let tag = from.u32()?;
        if tag == NEW_CLASS {
            let name = from.zero_terminated()?;
            // References state the position of the tag, plus two so that no reference is zero or one.
            self.named.push((tag_position + 2, name));
            return Ok(Some(name));
        }
        if tag & CLASS_REFERENCE == 0 {
            return Err(Refusal::Damaged("an object without a class"));
        }
        let position = (tag & !CLASS_REFERENCE) as usize;
        Ok(self
            .named
            .binary_search_by_key(&position, |&(at, _)| at)
            .ok()
            .and_then(|at| self.named.get(at))
            .map(|&(_, name)| name))
    }
}

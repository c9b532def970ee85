"""The runtime is what compiled code needs beside the kernel: the loop over programs and the search for a span.

It is LLVM IR, compiled with each variant, so that a user's machine needs no C compiler.
"""

from __future__ import annotations

from harness.kernels.executors.native import abi


def module(program: str, *, checks: bool) -> str:
    """A whole module around the function `program`; `run` in it is the entry point."""
    parts = [_HEADER, _RUN]
    if checks:
        parts.append(_CHECK)
    return "\n".join([*(_filled(part) for part in parts), program])


def _filled(text: str) -> str:
    """`text` with `$NAME` replaced by the byte offset of that word of a record."""
    for name, word in _OFFSETS:
        text = text.replace(f"${name}$", str(abi.WORD * word))
    return text


_OFFSETS = [
    (name, getattr(abi, name))
    for name in [
        "GRID",
        "PROGRAMS",
        "ORDER",
        "WATCH",
        "SPAN_COUNT",
        "SPAN_STARTS",
        "SPAN_SIZES",
        "FAULT_COUNT",
        "FAULT_CAPACITY",
        "FAULTS",
        "FAULT_SITE",
        "FAULT_ADDRESS",
        "FAULT_LANE",
        "FAULT_PROGRAM",
        "FAULT_INSIDE",
        "FAULT_WORDS",
    ]
]

_HEADER = """
!0 = !{!"branch_weights", i32 2000, i32 1}
"""

# In the natural order the indices are counted up, x fastest, as a GPU starts programs; in another one they are
# divided out of the linear id.
_RUN = """
define i64 @run(ptr %launch) nounwind {
entry:
  %grid.y = getelementptr i8, ptr %launch, i64 8
  %grid.z = getelementptr i8, ptr %launch, i64 16
  %gx = load i32, ptr %launch
  %gy = load i32, ptr %grid.y
  %programs.place = getelementptr i8, ptr %launch, i64 $PROGRAMS$
  %programs = load i64, ptr %programs.place
  %order.place = getelementptr i8, ptr %launch, i64 $ORDER$
  %order = load ptr, ptr %order.place
  %natural = icmp eq ptr %order, null
  %wide.gx = zext i32 %gx to i64
  %wide.gy = zext i32 %gy to i64
  br i1 %natural, label %count, label %permuted

count:
  %i = phi i64 [ 0, %entry ], [ %i.next, %counted ]
  %x = phi i32 [ 0, %entry ], [ %x.next, %counted ]
  %y = phi i32 [ 0, %entry ], [ %y.next, %counted ]
  %z = phi i32 [ 0, %entry ], [ %z.next, %counted ]
  %more = icmp ult i64 %i, %programs
  br i1 %more, label %counted, label %finish
counted:
  call void @program(ptr %launch, i32 %x, i32 %y, i32 %z, i64 %i)
  %i.next = add i64 %i, 1
  %x.up = add i32 %x, 1
  %x.full = icmp eq i32 %x.up, %gx
  %x.next = select i1 %x.full, i32 0, i32 %x.up
  %y.carry = zext i1 %x.full to i32
  %y.up = add i32 %y, %y.carry
  %y.full = icmp eq i32 %y.up, %gy
  %y.next = select i1 %y.full, i32 0, i32 %y.up
  %z.carry = zext i1 %y.full to i32
  %z.next = add i32 %z, %z.carry
  br label %count

permuted:
  %j = phi i64 [ 0, %entry ], [ %j.next, %divided ]
  %rest = icmp ult i64 %j, %programs
  br i1 %rest, label %divided, label %finish
divided:
  %id.place = getelementptr i64, ptr %order, i64 %j
  %id = load i64, ptr %id.place
  %x.wide = urem i64 %id, %wide.gx
  %plane = udiv i64 %id, %wide.gx
  %y.wide = urem i64 %plane, %wide.gy
  %z.wide = udiv i64 %plane, %wide.gy
  %x.id = trunc i64 %x.wide to i32
  %y.id = trunc i64 %y.wide to i32
  %z.id = trunc i64 %z.wide to i32
  call void @program(ptr %launch, i32 %x.id, i32 %y.id, i32 %z.id, i64 %id)
  %j.next = add i64 %j, 1
  br label %permuted

finish:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %count.place = getelementptr i8, ptr %watch, i64 $FAULT_COUNT$
  %faults = load i64, ptr %count.place
  ret i64 %faults
}
"""

# Spans are sorted and do not overlap: the only one that can hold the access is the last that starts at or before it.
# The site's cache gets the span's start and the number of places in it where an access of this width may start.
_CHECK = """
define internal i1 @check(ptr %launch, i64 %address, i64 %width, i64 %site, i64 %lane, i64 %program, ptr %cache) \
noinline nounwind {
entry:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %count = load i64, ptr %watch
  %starts.place = getelementptr i8, ptr %watch, i64 $SPAN_STARTS$
  %starts = load ptr, ptr %starts.place
  br label %search

search:
  %low = phi i64 [ 0, %entry ], [ %low.next, %halve ]
  %length = phi i64 [ %count, %entry ], [ %length.next, %halve ]
  %more = icmp ugt i64 %length, 0
  br i1 %more, label %halve, label %found
halve:
  %half = lshr i64 %length, 1
  %middle = add i64 %low, %half
  %middle.place = getelementptr i64, ptr %starts, i64 %middle
  %middle.start = load i64, ptr %middle.place
  %before = icmp ule i64 %middle.start, %address
  %above = add i64 %middle, 1
  %low.next = select i1 %before, i64 %above, i64 %low
  %left = sub i64 %length, %half
  %left.less = sub i64 %left, 1
  %length.next = select i1 %before, i64 %left.less, i64 %half
  br label %search

found:
  %none = icmp eq i64 %low, 0
  br i1 %none, label %refuse, label %measure
measure:
  %last = sub i64 %low, 1
  %start.place = getelementptr i64, ptr %starts, i64 %last
  %start = load i64, ptr %start.place
  %sizes.place = getelementptr i8, ptr %watch, i64 $SPAN_SIZES$
  %sizes = load ptr, ptr %sizes.place
  %size.place = getelementptr i64, ptr %sizes, i64 %last
  %size = load i64, ptr %size.place
  %distance = sub i64 %address, %start
  %fits = icmp uge i64 %size, %width
  %room.less = sub i64 %size, %width
  %near = icmp ule i64 %distance, %room.less
  %inside = and i1 %fits, %near
  br i1 %inside, label %align, label %refuse
align:
  %mask = sub i64 %width, 1
  %odd = and i64 %address, %mask
  %aligned = icmp eq i64 %odd, 0
  br i1 %aligned, label %accept, label %refuse
accept:
  %room = add i64 %room.less, 1
  store i64 %start, ptr %cache
  %room.place = getelementptr i8, ptr %cache, i64 8
  store i64 %room, ptr %room.place
  ret i1 true

refuse:
  %held = phi i64 [ 0, %found ], [ 0, %measure ], [ 1, %align ]
  %count.place = getelementptr i8, ptr %watch, i64 $FAULT_COUNT$
  %number = load i64, ptr %count.place
  %number.next = add i64 %number, 1
  store i64 %number.next, ptr %count.place
  %capacity.place = getelementptr i8, ptr %watch, i64 $FAULT_CAPACITY$
  %capacity = load i64, ptr %capacity.place
  %room.left = icmp ult i64 %number, %capacity
  br i1 %room.left, label %record, label %refused
record:
  %faults.place = getelementptr i8, ptr %watch, i64 $FAULTS$
  %faults = load ptr, ptr %faults.place
  %offset = mul i64 %number, $FAULT_WORDS$
  %fault = getelementptr i8, ptr %faults, i64 %offset
  %site.place = getelementptr i8, ptr %fault, i64 $FAULT_SITE$
  store i64 %site, ptr %site.place
  %address.place = getelementptr i8, ptr %fault, i64 $FAULT_ADDRESS$
  store i64 %address, ptr %address.place
  %lane.place = getelementptr i8, ptr %fault, i64 $FAULT_LANE$
  store i64 %lane, ptr %lane.place
  %program.place = getelementptr i8, ptr %fault, i64 $FAULT_PROGRAM$
  store i64 %program, ptr %program.place
  %inside.place = getelementptr i8, ptr %fault, i64 $FAULT_INSIDE$
  store i64 %held, ptr %inside.place
  br label %refused
refused:
  ret i1 false
}
"""

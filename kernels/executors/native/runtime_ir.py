"""The runtime is what compiled code needs besides the kernel: the loop over programs and the search for a span.

It is LLVM IR, compiled with each variant, so that a user's machine needs no C compiler.
"""

from __future__ import annotations

from harness.kernels.executors.native import abi, interleaving_ir
from harness.kernels.executors.native.record_ir import RECORD, RECORD_ALL, RECORD_OWNED
from harness.kernels.executors.native.shadow_ir import SHADOWS


def module(program: str, *, checks: bool, record: bool, undefined: bool, warps: int | None) -> str:
    """A whole module around the function `program`; `run` in it is the entry point.

    `warps`: the number of independent warps of each program, 1 if the program runs as a whole; None if programs run one
    after another.
    """
    parts = [
        _HEADER,
        _FAULT,
        _RUN if warps is None else interleaving_ir.run(warps),
        _CHECK if checks else _NO_CHECK,
        _MOVE,
    ]
    parts += [RECORD, RECORD_OWNED if warps is not None and warps > 1 else RECORD_ALL] if record else []
    parts += [SHADOWS] if undefined else []
    return "\n".join([*(_filled(part, record, undefined) for part in parts), program])


def _filled(text: str, record: bool, undefined: bool) -> str:
    """`text` with `$NAME$` replaced by the byte offset of that word of a record; lines that begin with `;record ` or
    `;undefined ` stay comments unless that is wanted."""
    if record:
        text = text.replace(";record ", "")
    if undefined:
        text = text.replace(";undefined ", "")
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
        "SPANS_WRITABLE",
        "FAULT_COUNT",
        "FAULT_CAPACITY",
        "FAULTS",
        "SPAN_CACHE",
        "FAULT_SITE",
        "FAULT_ADDRESS",
        "FAULT_LANE",
        "FAULT_PROGRAM",
        "FAULT_KIND",
        "FAULT_WORDS",
        "RECORD_COUNT",
        "RECORD_CAPACITY",
        "RECORDS",
        "STORED_SIZE",
        "STORED_CAPACITY",
        "STORED",
        "ACCESS_SITE",
        "ACCESS_PROGRAM",
        "ACCESS_EPOCH",
        "ACCESS_ADDRESS",
        "ACCESS_LANE",
        "ACCESS_COUNT",
        "ACCESS_STORED",
        "ACCESS_WORDS",
        "SHADOWS",
        "ORIGIN",
        "HIDDEN",
        "LIVE",
        "SEED",
        "FRAMES",
        "FRAME",
        "WARP",
    ]
]

_HEADER = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
!0 = !{!"branch_weights", i32 2000, i32 1}
"""

# Counts a fault, and keeps it if there is room.
_FAULT = """
define internal void @fault(ptr %watch, i64 %site, i64 %address, i64 %lane, i64 %program, i64 %kind) \
noinline nounwind {
entry:
  %count.place = getelementptr i8, ptr %watch, i64 $FAULT_COUNT$
  %number = load i64, ptr %count.place
  %number.next = add i64 %number, 1
  store i64 %number.next, ptr %count.place
  %capacity.place = getelementptr i8, ptr %watch, i64 $FAULT_CAPACITY$
  %capacity = load i64, ptr %capacity.place
  %room.left = icmp ult i64 %number, %capacity
  br i1 %room.left, label %keep, label %finish
keep:
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
  %kind.place = getelementptr i8, ptr %fault, i64 $FAULT_KIND$
  store i64 %kind, ptr %kind.place
  br label %finish
finish:
  ret void
}
"""

# In the natural order the indices are counted up, x fastest, as a GPU starts programs; in another order they are
# computed from the linear id by division.
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
# `find` returns 0: outside, 1: inside, 2: inside a span that a store must not change.
_CHECK = """
define internal i32 @find(ptr %watch, i64 %address, i64 %width, i1 %is.store, ptr %cache) noinline nounwind {
entry:
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
  br i1 %none, label %outside, label %measure
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
  %holds = and i1 %fits, %near
  br i1 %holds, label %inside, label %outside
inside:
  %writable.place = getelementptr i8, ptr %watch, i64 $SPANS_WRITABLE$
  %writables = load ptr, ptr %writable.place
  %flag.place = getelementptr i8, ptr %writables, i64 %last
  %flag = load i8, ptr %flag.place
  %locked = icmp eq i8 %flag, 0
  %trespasses = and i1 %locked, %is.store
  br i1 %trespasses, label %forbidden, label %keep
forbidden:
  ret i32 2
keep:
  %room = add i64 %room.less, 1
  store i64 %start, ptr %cache
  %room.place = getelementptr i8, ptr %cache, i64 8
  store i64 %room, ptr %room.place
  ret i32 1
outside:
  ret i32 0
}

define internal i1 @check(ptr %launch, i64 %address, i64 %width, i64 %site, i64 %lane, i64 %program, i1 %is.store, \
ptr %cache) noinline nounwind {
entry:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %found = call i32 @find(ptr %watch, i64 %address, i64 %width, i1 %is.store, ptr %cache)
  %inside = icmp eq i32 %found, 1
  %mask = sub i64 %width, 1
  %odd = and i64 %address, %mask
  %aligned = icmp eq i64 %odd, 0
  %legal = and i1 %inside, %aligned
  br i1 %legal, label %accept, label %refuse
accept:
  ret i1 true

refuse:
  ; outside, misaligned and read-only are numbered as `find` does
  %kind = zext i32 %found to i64
  call void @fault(ptr %watch, i64 %site, i64 %address, i64 %lane, i64 %program, i64 %kind)
  ret i1 false
}

define internal i1 @covers(ptr %launch, i64 %first, i64 %bytes, i64 %width, i1 %is.store, ptr %cache) nounwind {
entry:
  %mask = sub i64 %width, 1
  %odd = and i64 %first, %mask
  %aligned = icmp eq i64 %odd, 0
  br i1 %aligned, label %look, label %no
look:
  %again = phi i1 [ true, %entry ], [ false, %refresh ]
  %start = load i64, ptr %cache
  %room.place = getelementptr i8, ptr %cache, i64 8
  %room = load i64, ptr %room.place
  %distance = sub i64 %first, %start
  %starts.inside = icmp ult i64 %distance, %room
  %length = sub i64 %bytes, %width
  %rest = sub i64 %room, %distance
  %ends.inside = icmp ult i64 %length, %rest
  %inside = and i1 %starts.inside, %ends.inside
  br i1 %inside, label %yes, label %miss
miss:
  %elsewhere = xor i1 %starts.inside, true
  %retry = and i1 %again, %elsewhere
  br i1 %retry, label %refresh, label %no
refresh:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %found = call i32 @find(ptr %watch, i64 %first, i64 %width, i1 %is.store, ptr %cache)
  %inside.some = icmp eq i32 %found, 1
  br i1 %inside.some, label %look, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
"""

_NO_CHECK = """
define internal i1 @check(ptr %launch, i64 %address, i64 %width, i64 %site, i64 %lane, i64 %program, i1 %is.store, \
ptr %cache) nounwind {
  ret i1 true
}
define internal i1 @covers(ptr %launch, i64 %first, i64 %bytes, i64 %width, i1 %is.store, ptr %cache) nounwind {
  ret i1 true
}
"""

# Moves `count` elements of `width` bytes between `address` and `buffer`: at once if all may be touched, else one by
# one. With a mask (a byte for each lane) `count` is all lanes. A load clears lanes that get nothing, if requested.
_MOVE = """
define internal void @move(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %width, i64 %address, \
i64 %count, ptr %mask, \
i64 %lanes, i1 %is.store, i1 %clear, ptr %buffer, ptr %shadow) noinline nounwind {
entry:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %hidden.place = getelementptr i8, ptr %watch, i64 $HIDDEN$
  %hidden = load i64, ptr %hidden.place
  %real = sub i64 %address, %hidden
  %memory = inttoptr i64 %real to ptr
  %straight = icmp eq ptr %mask, null
  %kept = select i1 %straight, i64 %count, i64 0
  %idle = sub i64 %lanes, %kept
  %some.idle = icmp ne i64 %idle, 0
  %clears = and i1 %clear, %some.idle
  br i1 %clears, label %clearing, label %cleared
clearing:
  %kept.bytes = mul i64 %kept, %width
  %idle.bytes = mul i64 %idle, %width
  %idle.place = getelementptr i8, ptr %buffer, i64 %kept.bytes
  call void @llvm.memset.p0.i64(ptr %idle.place, i8 0, i64 %idle.bytes, i1 false)
  ;undefined %idle.shadow = getelementptr i8, ptr %shadow, i64 %kept.bytes
  ;undefined call void @llvm.memset.p0.i64(ptr %idle.shadow, i8 0, i64 %idle.bytes, i1 false)
  br label %cleared
cleared:
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %finish, label %start
start:
  %spans.place = getelementptr i8, ptr %launch, i64 $SPAN_CACHE$
  %spans = load ptr, ptr %spans.place
  %cache.offset = mul i64 %site, 16
  %cache = getelementptr i8, ptr %spans, i64 %cache.offset
  br i1 %straight, label %whole, label %lane
whole:
  %bytes = mul i64 %count, %width
  %recorded = select i1 %is.store, ptr %buffer, ptr null
  %all = call i1 @covers(ptr %launch, i64 %address, i64 %bytes, i64 %width, i1 %is.store, ptr %cache)
  br i1 %all, label %copy, label %lane
copy:
  %target = select i1 %is.store, ptr %memory, ptr %buffer
  %source = select i1 %is.store, ptr %buffer, ptr %memory
  ;record call void @record(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %address, i64 0, i64 %count, \
i64 %width, ptr %recorded)
  ;undefined call void @carry(ptr %launch, i64 %address, i64 %bytes, ptr %shadow, i1 %is.store)
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  br label %finish

lane:
  %i = phi i64 [ 0, %start ], [ 0, %whole ], [ %i.next, %next ]
  br i1 %straight, label %test, label %masked
masked:
  %mask.place = getelementptr i8, ptr %mask, i64 %i
  %mask.byte = load i8, ptr %mask.place
  %allowed = icmp ne i8 %mask.byte, 0
  br i1 %allowed, label %test, label %next
test:
  %offset = mul i64 %i, %width
  %lane.address = add i64 %address, %offset
  %lane.buffer = getelementptr i8, ptr %buffer, i64 %offset
  %legal = call i1 @check(ptr %launch, i64 %lane.address, i64 %width, i64 %site, i64 %i, i64 %program, \
i1 %is.store, ptr %cache)
  br i1 %legal, label %move.lane, label %refused
move.lane:
  %lane.memory = getelementptr i8, ptr %memory, i64 %offset
  %lane.target = select i1 %is.store, ptr %lane.memory, ptr %lane.buffer
  %lane.source = select i1 %is.store, ptr %lane.buffer, ptr %lane.memory
  ;record %lane.recorded = select i1 %is.store, ptr %lane.buffer, ptr null
  ;record call void @record(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %lane.address, i64 %i, i64 1, \
i64 %width, ptr %lane.recorded)
  ;undefined %lane.shadow = getelementptr i8, ptr %shadow, i64 %offset
  ;undefined call void @carry(ptr %launch, i64 %lane.address, i64 %width, ptr %lane.shadow, i1 %is.store)
  call void @llvm.memcpy.p0.p0.i64(ptr %lane.target, ptr %lane.source, i64 %width, i1 false)
  br label %next
refused:
  br i1 %clear, label %clear.lane, label %next
clear.lane:
  call void @llvm.memset.p0.i64(ptr %lane.buffer, i8 0, i64 %width, i1 false)
  ;undefined %cleared.shadow = getelementptr i8, ptr %shadow, i64 %offset
  ;undefined call void @llvm.memset.p0.i64(ptr %cleared.shadow, i8 0, i64 %width, i1 false)
  br label %next
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %lane, label %finish

finish:
  ret void
}
"""

;; Spans are sorted and do not overlap: the only one that can hold the access is the last that starts at or before it.
;; The site's cache gets the span's start and the number of places in it where an access of this width may start.
;; `find` returns 0: outside, 1: inside, 2: inside a span that a store must not change.
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

define internal i1 @check(ptr %launch, i64 %address, i64 %width, i64 %site, i64 %lane, i64 %program, i1 %is.store, ptr %cache) noinline nounwind {
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

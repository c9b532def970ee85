;; Moves `count` elements of `width` bytes between `address` and `buffer`: at once if all may be touched, else one by
;; one. With a mask (a byte for each lane) `count` is all lanes. A load clears lanes that get nothing, if requested.
define internal void @move(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %width, i64 %address, i64 %count, ptr %mask, i64 %lanes, i1 %is.store, i1 %clear, ptr %buffer, ptr %shadow) noinline nounwind {
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
  ;record call void @record(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %address, i64 0, i64 %count, i64 %width, ptr %recorded)
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
  %legal = call i1 @check(ptr %launch, i64 %lane.address, i64 %width, i64 %site, i64 %i, i64 %program, i1 %is.store, ptr %cache)
  br i1 %legal, label %move.lane, label %refused
move.lane:
  %lane.memory = getelementptr i8, ptr %memory, i64 %offset
  %lane.target = select i1 %is.store, ptr %lane.memory, ptr %lane.buffer
  %lane.source = select i1 %is.store, ptr %lane.buffer, ptr %lane.memory
  ;record %lane.recorded = select i1 %is.store, ptr %lane.buffer, ptr null
  ;record call void @record(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %lane.address, i64 %i, i64 1, i64 %width, ptr %lane.recorded)
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

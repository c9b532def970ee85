;; Where warps are independent, each runs the whole program: of its loads, only the lanes that it owns count.
define internal void @record(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %address, i64 %lane, i64 %count, i64 %width, ptr %value) noinline nounwind {
entry:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %warp.place = getelementptr i8, ptr %watch, i64 $WARP$
  %warp = load i64, ptr %warp.place
  %table.place = getelementptr ptr, ptr @owner.tables, i64 %site
  %table = load ptr, ptr %table.place
  %is.load = icmp eq ptr %value, null
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %test, label %finish
test:
  %this = add i64 %lane, %i
  %owner.place = getelementptr i8, ptr %table, i64 %this
  %owner.byte = load i8, ptr %owner.place
  %owner = zext i8 %owner.byte to i64
  %mine = icmp eq i64 %owner, %warp
  br i1 %mine, label %keep, label %next
keep:
  %offset = mul i64 %i, %width
  %here = add i64 %address, %offset
  %value.here = getelementptr i8, ptr %value, i64 %offset
  %kept = select i1 %is.load, ptr null, ptr %value.here
  call void @append(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %here, i64 %this, i64 1, i64 %width, ptr %kept)
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %look
finish:
  ret void
}

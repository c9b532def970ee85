;; Accesses call `record`; `append` stores one run of lanes.
;; Appends an access record, or extends the last one if lane and address continue it. `value` points to the bytes of a
;; store, null for a load.
define internal void @append(ptr %launch, i64 %program, i64 %epoch, i64 %site, i64 %address, i64 %lane, i64 %count, i64 %width, ptr %value) noinline nounwind {
entry:
  %watch.place = getelementptr i8, ptr %launch, i64 $WATCH$
  %watch = load ptr, ptr %watch.place
  %number.place = getelementptr i8, ptr %watch, i64 $RECORD_COUNT$
  %number = load i64, ptr %number.place
  %capacity.place = getelementptr i8, ptr %watch, i64 $RECORD_CAPACITY$
  %capacity = load i64, ptr %capacity.place
  %records.place = getelementptr i8, ptr %watch, i64 $RECORDS$
  %records = load ptr, ptr %records.place
  %bytes = mul i64 %count, %width
  %is.load = icmp eq ptr %value, null
  %size.place = getelementptr i8, ptr %watch, i64 $STORED_SIZE$
  %size = load i64, ptr %size.place
  br i1 %is.load, label %follow, label %keep
keep:
  %size.next = add i64 %size, %bytes
  store i64 %size.next, ptr %size.place
  %most.place = getelementptr i8, ptr %watch, i64 $STORED_CAPACITY$
  %most = load i64, ptr %most.place
  %fits = icmp ule i64 %size.next, %most
  br i1 %fits, label %kept, label %follow
kept:
  %stored.place = getelementptr i8, ptr %watch, i64 $STORED$
  %stored = load ptr, ptr %stored.place
  %target = getelementptr i8, ptr %stored, i64 %size
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %value, i64 %bytes, i1 false)
  br label %follow

follow:
  %room = icmp ult i64 %number, %capacity
  br i1 %room, label %look, label %full
look:
  %offset = mul i64 %number, $ACCESS_WORDS$
  %here = getelementptr i8, ptr %records, i64 %offset
  %none = icmp eq i64 %number, 0
  br i1 %none, label %append, label %compare
compare:
  %last = getelementptr i8, ptr %here, i64 -$ACCESS_WORDS$
  %last.site.place = getelementptr i8, ptr %last, i64 $ACCESS_SITE$
  %last.site = load i64, ptr %last.site.place
  %same.site = icmp eq i64 %last.site, %site
  %last.program.place = getelementptr i8, ptr %last, i64 $ACCESS_PROGRAM$
  %last.program = load i64, ptr %last.program.place
  %same.program = icmp eq i64 %last.program, %program
  %last.epoch.place = getelementptr i8, ptr %last, i64 $ACCESS_EPOCH$
  %last.epoch = load i64, ptr %last.epoch.place
  %same.epoch = icmp eq i64 %last.epoch, %epoch
  %last.address.place = getelementptr i8, ptr %last, i64 $ACCESS_ADDRESS$
  %last.address = load i64, ptr %last.address.place
  %last.lane.place = getelementptr i8, ptr %last, i64 $ACCESS_LANE$
  %last.lane = load i64, ptr %last.lane.place
  %last.count.place = getelementptr i8, ptr %last, i64 $ACCESS_COUNT$
  %last.count = load i64, ptr %last.count.place
  %lane.next = add i64 %last.lane, %last.count
  %same.lane = icmp eq i64 %lane.next, %lane
  %last.bytes = mul i64 %last.count, %width
  %address.next = add i64 %last.address, %last.bytes
  %same.address = icmp eq i64 %address.next, %address
  %same.1 = and i1 %same.site, %same.program
  %same.2 = and i1 %same.epoch, %same.lane
  %same.3 = and i1 %same.1, %same.2
  %same = and i1 %same.3, %same.address
  br i1 %same, label %extend, label %append
extend:
  %extended = add i64 %last.count, %count
  store i64 %extended, ptr %last.count.place
  ret void
append:
  %site.place = getelementptr i8, ptr %here, i64 $ACCESS_SITE$
  store i64 %site, ptr %site.place
  %program.place = getelementptr i8, ptr %here, i64 $ACCESS_PROGRAM$
  store i64 %program, ptr %program.place
  %epoch.place = getelementptr i8, ptr %here, i64 $ACCESS_EPOCH$
  store i64 %epoch, ptr %epoch.place
  %address.place = getelementptr i8, ptr %here, i64 $ACCESS_ADDRESS$
  store i64 %address, ptr %address.place
  %lane.place = getelementptr i8, ptr %here, i64 $ACCESS_LANE$
  store i64 %lane, ptr %lane.place
  %count.place = getelementptr i8, ptr %here, i64 $ACCESS_COUNT$
  store i64 %count, ptr %count.place
  %begin.place = getelementptr i8, ptr %here, i64 $ACCESS_STORED$
  store i64 %size, ptr %begin.place
  br label %full
full:
  %number.next = add i64 %number, 1
  store i64 %number.next, ptr %number.place
  ret void
}

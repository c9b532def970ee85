;; Counts a fault, and keeps it if there is room.
define internal void @fault(ptr %watch, i64 %site, i64 %address, i64 %lane, i64 %program, i64 %kind) noinline nounwind {
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

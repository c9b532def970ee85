;; In the natural order the indices are counted up, x fastest, as a GPU starts programs; in another order they are
;; computed from the linear id by division.
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
